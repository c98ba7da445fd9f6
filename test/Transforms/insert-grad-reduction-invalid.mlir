// Tests that a type to reduce in that does not exist is an error with those
// that do.
// RUN: not fsdp-opt %s --fsdp-insert-grad-reduction="reduce-dtype=bf16" 2>&1 | FileCheck %s

// CHECK: error: reduce-dtype=bf16 does not exist; there are bfloat16, float16, float32, float64
module {}

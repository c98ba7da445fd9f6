// Tests that a type to reduce in that does not exist is an error with those
// that do, and that a gradient is reduced once.
// RUN: not fsdp-opt %s --fsdp-insert-grad-reduction="reduce-dtype=bf16" 2>&1 | FileCheck %s
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state=mesh=2 --fsdp-insert-grad-reduction --fsdp-insert-grad-reduction 2>&1 | FileCheck %s --check-prefix=TWICE

// TWICE: error: 'fsdp.update' op has a gradient that is reduced already; run fsdp-insert-grad-reduction once
// CHECK: error: reduce-dtype=bf16 does not exist; there are bfloat16, float16, float32, float64
module {}

// Tests that values of reshard-after-forward that do not exist are errors.
// RUN: not fsdp-opt %s --fsdp-insert-unshard="reshard-after-forward=2" 2>&1 | FileCheck %s

// CHECK: error: reshard-after-forward=2 does not exist yet; there are auto, true and false
module {}

// Tests that offload takes known values, and that the pass names an option it
// does not have.
// RUN: not fsdp-opt %s --fsdp-offload-state="offload=some" 2>&1 | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-offload-state="ofload=all" 2>&1 | FileCheck %s --check-prefix=NAME

// CHECK: error: offload=some does not exist; there are none, params, optimizer and all
// CHECK-NOT: error
// NAME: error: fsdp-offload-state has no option ofload; fsdp-opt --help-all lists those that it has
module {}

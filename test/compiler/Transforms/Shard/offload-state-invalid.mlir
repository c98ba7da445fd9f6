// Tests that offload takes known values, that the pass names an option it does
// not have, and that what is on the host is not sent there again.
// RUN: not fsdp-opt %s --fsdp-offload-state="offload=some" 2>&1 | FileCheck %s
// RUN: not fsdp-opt %s --fsdp-offload-state="ofload=all" 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2 offload=optimizer" --fsdp-offload-state="offload=optimizer" 2>&1 | FileCheck %s --check-prefix=TWICE
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-offload-state="offload=all" 2>&1 | FileCheck %s --check-prefix=UNITS

// UNITS: error: 'fsdp.state' op is of a parameter without a unit; run fsdp-assign-units before fsdp-offload-state
// TWICE: error: 'fsdp.state' op is on the host already; run fsdp-offload-state once
// CHECK: error: offload=some does not exist; there are none, params, optimizer and all
// CHECK-NOT: error
// NAME: error: fsdp-offload-state has no option ofload; the nearest is offload, all are offload, pin-memory [FSDP-E0402]
module {}

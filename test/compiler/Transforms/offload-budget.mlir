// Tests that a budget is for the device alone, and that one that is too small is an error that names one that is not.
// RUN: fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 units=class:Linear offload=all memory-budget-mib=0.001" -o /dev/null
// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 units=class:Linear memory-budget-mib=0.0006" 2>&1 | FileCheck %s --check-prefix=DEVICE
// RUN: not fsdp-opt %S/Inputs/mlp.mlir --fsdp-pipeline="mesh=2 units=class:Linear offload=all memory-budget-mib=0.0001" 2>&1 | FileCheck %s --check-prefix=HOST

// DEVICE: error: program "step" does not fit memory-budget-mib=0.0006: it needs 0.01 MiB ([[BYTES:[0-9]+]] bytes)
// HOST: error: program "step" does not fit memory-budget-mib=0.0001: it needs 0.01 MiB ({{[0-9]+}} bytes)

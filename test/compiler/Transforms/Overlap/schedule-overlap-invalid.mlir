// Tests that schedules, depths, budgets and clusters that do not exist, and a
// budget that no schedule fits, are errors that say what there is.
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 schedule=early" 2>&1 | FileCheck %s --check-prefix=SCHEDULE
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 cluster=h200" 2>&1 | FileCheck %s --check-prefix=CLUSTER
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 prefetch-forward=all" 2>&1 | FileCheck %s --check-prefix=DEPTH
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 memory-budget-mib=much" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 memory-budget-mib=0" 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 bucket-cap-mib=much" 2>&1 | FileCheck %s --check-prefix=CAP
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-pipeline="mesh=2 memory-budget-mib=0.0001" 2>&1 | FileCheck %s --check-prefix=BUDGET
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard=mesh=2 --fsdp-bucket-collectives --fsdp-schedule-overlap 2>&1 | FileCheck %s --check-prefix=PHASE

// SCHEDULE: error: schedule=early does not exist; there are overlap, fsdp2 and naive
// CLUSTER: error: cluster=h200 is neither a preset nor a file; the presets are local, {{.*}}h200x8
// DEPTH: error: prefetch-forward=all is neither auto nor a number of units
// NUMBER: error: memory-budget-mib=much is no number of MiB, as in 25 or 0.5
// NOTHING: error: memory-budget-mib=0 leaves room for nothing; give the MiB that a rank may use, or leave the option out for any amount [FSDP-E0402]
// CAP: error: bucket-cap-mib=much is no number of MiB, as in 25 or 0.5
// BUDGET: error: program "step" does not fit memory-budget-mib=0.0001: it needs 0.01 MiB ({{[0-9]+}} bytes) with no collective in flight longer than it must be; give that, more ranks, or remat=auto or offload=all, which need less
// PHASE: error: {{.*}}is not asynchronous; run --fsdp-convert-to-async first

// Tests that values of reshard-after-forward that do not exist are errors, and
// numbers of ranks that do not divide the shards.
// RUN: not fsdp-opt %s --fsdp-insert-unshard="reshard-after-forward=0" 2>&1 | FileCheck %s
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=4 reshard-after-forward=3" 2>&1 | FileCheck %s --check-prefix=DIVISOR
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=4x2 reshard-after-forward=4" 2>&1 | FileCheck %s --check-prefix=SHARDS

// CHECK: error: reshard-after-forward=0 does not exist; there are auto, true, false and a number of ranks
// DIVISOR: error: unit "{{.*}}" is to keep a secondary shard over 3 ranks after forward, which does not divide the 4 that parameters are sharded over; give a divisor
// SHARDS: error: unit "{{.*}}" is to keep a secondary shard over 4 ranks after forward, which does not divide the 2 that
module {}

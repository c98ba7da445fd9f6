// Tests that a part of a parameter is never taken for the whole, and that a
// gradient of one rank is never taken for the mean of all.
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-grad-reduction --fsdp-localize 2>&1 | FileCheck %s --check-prefix=READ
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard --fsdp-localize 2>&1 | FileCheck %s --check-prefix=UPDATE
// RUN: not fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-localize 2>&1 | FileCheck %s --check-prefix=MESH

// MESH: error: the module has no mesh; run fsdp-shard-state first
// READ: error: 'aten.call' op reads sharded @blocks.0.w without an fsdp.unshard; run --fsdp-insert-unshard first
// UPDATE: error: 'fsdp.update' op of sharded @{{.*}} has a gradient that is not reduced; run --fsdp-insert-grad-reduction first

// Tests that only whole, gathered parameters and reduced gradients are laid out
// as one range.
// DEFINE: %{to} = fsdp-opt %S/../Inputs/mlp.mlir --fsdp-assign-units --fsdp-shard-state=mesh=2
// RUN: not %{to} --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-flatten-state=gather=x 2>&1 | FileCheck %s --check-prefix=GATHER
// RUN: not %{to} --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-localize --fsdp-flatten-state 2>&1 | FileCheck %s --check-prefix=LOCAL
// RUN: not %{to} --fsdp-insert-grad-reduction --fsdp-flatten-state 2>&1 | FileCheck %s --check-prefix=READ
// RUN: not %{to} --fsdp-insert-unshard --fsdp-flatten-state 2>&1 | FileCheck %s --check-prefix=UPDATE
// RUN: not %{to} --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-skip-non-finite=non-finite=skip --fsdp-flatten-state 2>&1 | FileCheck %s --check-prefix=SKIPPED
// RUN: sed '/@step_2/,$s/fsdp.update @sgd.0 @w/fsdp.update @sgd.1 @w/' %S/../Inputs/two_shapes.mlir | not fsdp-opt --fsdp-assign-units --fsdp-shard-state=mesh=2 --fsdp-insert-unshard --fsdp-insert-grad-reduction --fsdp-flatten-state 2>&1 | FileCheck %s --check-prefix=RULE

// GATHER: error: gather=x does not exist; there are auto, copy and map
// LOCAL: error: {{.*}} has the type of one rank's part already; run fsdp-flatten-state before fsdp-localize
// READ: error: {{.*}} reads sharded @{{.*}} without an fsdp.unshard; run --fsdp-insert-unshard first
// UPDATE: error: {{.*}} has a gradient that is not reduced; run --fsdp-insert-grad-reduction first
// SKIPPED: error: 'fsdp.update' op is not the only reader of its gradient, or is scaled; run fsdp-flatten-state before passes that look at all gradients
// RULE: error: 'fsdp.update' op of @w has another rule or other states than that of another program, but a flat parameter has one; use shard-layout=dim0

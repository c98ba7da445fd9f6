// Tests that to clip by value is a part of the rule, and of what the step's updates mean: a plan that
// clips otherwise is another one.
// RUN: sed 's/seed = 0 : i64/clip_grad_value = 0.5 : f64/' %S/../Inputs/mlp.mlir > %t.value.mlir
// RUN: fsdp-opt --mlir-print-debuginfo=false %t.value.mlir --fsdp-clip-values | FileCheck %s --check-prefix=VALUE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-clip-values | FileCheck %s --check-prefix=NONE
// RUN: fsdp-opt %t.value.mlir --fsdp-pipeline="mesh=2" | fsdp-translate --fsdp-to-plan -o %t.plan
// RUN: fsdp-translate --plan-to-text %t.plan | FileCheck %s --check-prefix=COVERED

// VALUE-LABEL: func.func private @sgd.0
// VALUE-SAME: (%{{.*}}: tensor<*xf32>, %[[G:.*]]: tensor<*xf32>, %{{.*}})
// VALUE-NEXT: %[[C:.*]] = aten.call "clamp"(%[[G]]) {max = 5.000000e-01 : f64, min = -5.000000e-01 : f64}
// VALUE: aten.call "add.Tensor"(%{{.*}}, %[[C]])
// VALUE-NOT: all_reduce

// NONE-NOT: clamp

// COVERED-NOT: not covered

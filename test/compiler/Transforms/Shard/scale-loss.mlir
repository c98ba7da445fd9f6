// Tests that backward starts with the loss's scale, that updates take it out again
// and are skipped on all ranks where a gradient of any is not finite, that the
// next scale is stored, and that skipped steps do not count for the rules. With
// clipping, the norm is that of the gradients without the scale.
// RUN: sed 's/seed = 0 : i64/scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}/; s/  fsdp.state @calls/  fsdp.state @fsdp.scaler.scale buffer : tensor<f32>\n  fsdp.state @fsdp.scaler.growth_tracker buffer : tensor<i32>\n  fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64>\n&/; s/other = 0.9 : f64} : (tensor<\*xf32>)/} : (tensor<*xf32>, f64)/; s/"mul.Scalar"(%m) {/"mul.Scalar"(%m, %n) {/; s/    %lr = fsdp.hyperparameter "lr" of 0/&\n    %n = fsdp.step_count/' %S/../Inputs/mlp.mlir > %t.mlir
// RUN: sed 's/scaler =/clip_grad_norm = array<f64: 0.5, 2.0>, &/' %t.mlir > %t.clip.mlir
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2" | FileCheck %s
// RUN: fsdp-opt %t.clip.mlir --fsdp-shard="mesh=2" | FileCheck %s --check-prefix=CLIP
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2 shard-layout=flat" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2" | FileCheck %s --check-prefix=NONE

// CHECK-LABEL: func.func private @sgd.0
// CHECK: %[[N:.*]] = fsdp.step_count
// CHECK-NEXT: %[[SKIPPED:.*]] = fsdp.state_value @fsdp.scaler.skipped_steps
// CHECK-NEXT: %[[DONE:.*]] = arith.subf %[[N]], %[[SKIPPED]] : f64
// CHECK-NEXT: aten.call "mul.Scalar"(%{{.*}}, %[[DONE]])

// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<f32> {fsdp.output = "loss_scale"}, tensor<f64> {fsdp.output = "skipped_steps"})
// CHECK: %[[ONE:.*]] = aten.call "full"
// CHECK-NEXT: %[[SCALE:.*]] = fsdp.load @fsdp.scaler.scale : tensor<f32>
// CHECK-NEXT: %[[COTANGENT:.*]] = aten.call "mul.Tensor"(%[[SCALE]], %[[ONE]])
// CHECK-NEXT: aten.call "expand"(%[[COTANGENT]])
// CHECK-COUNT-2: aten.call "fsdp_mlir::power_sum"{{.*}}p = 0x7FF0000000000000 : f64
// CHECK: aten.call "amax"
// CHECK-NEXT: %[[MOST:.*]] = fsdp.all_reduce max overflow
// CHECK-NEXT: %[[FINITE:.*]] = aten.call "isfinite"(%[[MOST]])
// CHECK-NEXT: %[[NOT:.*]] = aten.call "logical_not"(%[[FINITE]])
// CHECK-NEXT: %[[OVERFLOW:.*]] = aten.call "_to_copy"(%[[NOT]]) backward {dtype = f32
// CHECK-NEXT: %[[S:.*]] = fsdp.load @fsdp.scaler.scale
// CHECK: aten.call "reciprocal"
// CHECK-NEXT: %[[INVERSE:.*]] = aten.call "_to_copy"(%{{.*}}) backward {dtype = f32
// CHECK-COUNT-2: fsdp.update {{.*}} scale %[[INVERSE]] : tensor<f32> skip %[[OVERFLOW]] : tensor<f32>
// CHECK: %[[NEXT:.*]]:2 = aten.call "_amp_update_scale"(%[[S]], %{{.*}}, %[[OVERFLOW]])
// CHECK: fsdp.store %[[NEXT]]#0, @fsdp.scaler.scale
// CHECK-NEXT: fsdp.store %[[NEXT]]#1, @fsdp.scaler.growth_tracker
// CHECK: fsdp.store %[[COUNT:.*]], @fsdp.scaler.skipped_steps
// CHECK-NEXT: return %{{.*}}, %[[S]], %[[COUNT]]

// CLIP: %[[INVERSE:.*]] = aten.call "_to_copy"(%{{.*}}) backward {dtype = f32} : (tensor<f64>) -> tensor<f32>
// CLIP: aten.call "sqrt"
// CLIP: %[[NORM:.*]] = aten.call "mul.Tensor"(%{{.*}}, %{{.*}}) backward : (tensor<f32>, tensor<f32>) -> tensor<f32>
// CLIP: aten.call "clamp"
// CLIP-NEXT: %[[FACTOR:.*]] = aten.call "mul.Tensor"
// CLIP-COUNT-2: fsdp.update {{.*}} scale %[[FACTOR]] : tensor<f32> skip

// COMMANDS: fsdp.cmd.collective{{ +}}all_reduce {{.*}}op = #fsdp<reduce_op max>
// COMMANDS: fsdp.cmd.update {{.*}} scale %{{.*}} : tensor<f32> skip %{{.*}} : tensor<f32>

// NONE-NOT: {{isfinite|scale|skip|state_value}}

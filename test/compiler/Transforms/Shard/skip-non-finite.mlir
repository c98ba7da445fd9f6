// Tests that backward begins with NaN where the loss is not finite, that updates are
// skipped on all ranks where a gradient of any is not finite, that buffers then keep
// their values, and that such steps do not count for the rules. A scaler does so
// itself.
// RUN: sed 's/other = 0.9 : f64} : (tensor<\*xf32>)/} : (tensor<*xf32>, f64)/; s/"mul.Scalar"(%m) {/"mul.Scalar"(%m, %n) {/; s/    %lr = fsdp.hyperparameter "lr" of 0/&\n    %n = fsdp.step_count/' %S/../Inputs/mlp.mlir > %t.mlir
// RUN: sed 's/seed = 0 : i64/accumulate = 2 : i64, &/' %t.mlir > %t.micro.mlir
// RUN: sed 's/seed = 0 : i64/scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}/; s/  fsdp.state @calls/  fsdp.state @fsdp.scaler.scale buffer : tensor<f32>\n  fsdp.state @fsdp.scaler.growth_tracker buffer : tensor<i32>\n  fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64>\n&/' %t.mlir > %t.scaler.mlir
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2 non-finite=skip" | FileCheck %s
// RUN: fsdp-opt %t.micro.mlir --fsdp-shard="mesh=2 non-finite=skip" | FileCheck %s --check-prefix=MICRO
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2x2 shard-layout=flat non-finite=skip" | FileCheck %s --check-prefix=COMMANDS
// RUN: fsdp-opt %t.mlir --fsdp-shard="mesh=2 non-finite=apply" | FileCheck %s --check-prefix=NONE
// RUN: fsdp-opt %t.scaler.mlir --fsdp-shard="mesh=2" -o %t.without
// RUN: fsdp-opt %t.scaler.mlir --fsdp-shard="mesh=2 non-finite=skip" -o %t.with
// RUN: sed 's/non-finite=skip/non-finite=apply/' %t.with | diff %t.without -

// CHECK: fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64> {init = [#fsdp.init<fill, values = [0.000000e+00]>]}

// CHECK-LABEL: func.func private @sgd.0
// CHECK: %[[N:.*]] = fsdp.step_count
// CHECK-NEXT: %[[SKIPPED:.*]] = fsdp.state_value @fsdp.scaler.skipped_steps
// CHECK-NEXT: %[[DONE:.*]] = arith.subf %[[N]], %[[SKIPPED]] : f64
// CHECK-NEXT: aten.call "mul.Scalar"(%{{.*}}, %[[DONE]])

// CHECK-LABEL: func.func @step
// CHECK-SAME: tensor<f64> {fsdp.output = "skipped_steps"})
// CHECK: %[[LOSS:.*]] = aten.call "sum"
// CHECK-NEXT: %[[ONE:.*]] = aten.call "full"
// CHECK-NEXT: %[[ZERO:.*]] = aten.call "sub.Tensor"(%[[LOSS]], %[[LOSS]])
// CHECK-NEXT: %[[BEGIN:.*]] = aten.call "add.Tensor"(%[[ONE]], %[[ZERO]])
// CHECK-NEXT: aten.call "expand"(%[[BEGIN]])
// CHECK-COUNT-2: aten.call "fsdp_mlir::power_sum"{{.*}}p = 0x7FF0000000000000 : f64
// CHECK: aten.call "amax"
// CHECK-NEXT: %[[MOST:.*]] = fsdp.all_reduce max overflow
// CHECK-NEXT: %[[FINITE:.*]] = aten.call "isfinite"(%[[MOST]])
// CHECK-NEXT: %[[NOT:.*]] = aten.call "logical_not"(%[[FINITE]])
// CHECK-NEXT: %[[SKIP:.*]] = aten.call "_to_copy"(%[[NOT]]) backward {dtype = f32
// CHECK-COUNT-2: fsdp.update {{.*}} skip %[[SKIP]] : tensor<f32>
// CHECK: %[[BOOL:.*]] = aten.call "_to_copy"(%[[SKIP]]) backward {dtype = i1
// CHECK-NEXT: %[[BEFORE:.*]] = fsdp.load @calls
// CHECK-NEXT: %[[KEPT:.*]] = aten.call "where.self"(%[[BOOL]], %[[BEFORE]], %{{.*}})
// CHECK-NEXT: fsdp.store %[[KEPT]], @calls
// CHECK-NEXT: %[[COUNT:.*]] = fsdp.load @fsdp.scaler.skipped_steps
// CHECK-NEXT: %[[SUM:.*]] = aten.call "add.Tensor"(%[[COUNT]], %[[SKIP]])
// CHECK-NEXT: fsdp.store %[[SUM]], @fsdp.scaler.skipped_steps
// CHECK-NEXT: return %[[LOSS]], %[[SUM]]

// MICRO-DAG: fsdp.state @fsdp.kept.micro_batches buffer : tensor<f64> {init
// MICRO-DAG: fsdp.state @fsdp.kept.calls buffer : tensor<2x4xf32> {init
// MICRO-LABEL: func.func @step
// MICRO: fsdp.store %{{.*}}, @"blocks.1.w/grad"
// MICRO: %[[BEFORE:.*]] = fsdp.load @fsdp.kept.calls
// MICRO-NEXT: aten.call "where.self"(%{{.*}}, %[[BEFORE]], %{{.*}})
// MICRO-NEXT: fsdp.store %{{.*}}, @calls
// MICRO-NEXT: %[[COUNT:.*]] = fsdp.load @fsdp.kept.micro_batches
// MICRO-NEXT: %[[ZERO:.*]] = aten.call "mul.Scalar"(%[[COUNT]]) backward {other = 0.000000e+00
// MICRO-NEXT: fsdp.store %[[ZERO]], @fsdp.kept.micro_batches
// MICRO-LABEL: func.func @accumulate
// MICRO-NEXT: %[[COUNT:.*]] = fsdp.load @fsdp.kept.micro_batches
// MICRO-NEXT: %[[FIRST:.*]] = aten.call "eq.Scalar"(%[[COUNT]]) {other = 0.000000e+00
// MICRO-NEXT: %[[NOW:.*]] = fsdp.load @calls
// MICRO-NEXT: %[[KEPT:.*]] = fsdp.load @fsdp.kept.calls
// MICRO-NEXT: %[[ONE:.*]] = aten.call "where.self"(%[[FIRST]], %[[NOW]], %[[KEPT]])
// MICRO-NEXT: fsdp.store %[[ONE]], @fsdp.kept.calls
// MICRO-NEXT: %[[NEXT:.*]] = aten.call "add.Scalar"(%[[COUNT]]) {other = 1.000000e+00
// MICRO-NEXT: fsdp.store %[[NEXT]], @fsdp.kept.micro_batches
// MICRO: aten.call "sub.Tensor"(%[[LOSS:.*]], %[[LOSS]])
// MICRO-NOT: where.self

// COMMANDS: fsdp.cmd.collective{{ +}}all_reduce {{.*}}op = #fsdp<reduce_op max>
// COMMANDS: fsdp.cmd.update {{.*}} skip %{{.*}} : tensor<f32>

// NONE-NOT: {{isfinite|where|skip[^-]|state_value}}

// Tests that gradients are clipped by their norm: a sum of powers behind each
// unit's gradients, one all-reduce of one number, and a factor that every update
// multiplies its gradient with. In both layouts the same, on one rank without the
// all-reduce.
// RUN: sed 's/seed = 0 : i64/clip_grad_norm = array<f64: 0.5, 2.0>/' %S/../Inputs/mlp.mlir > %t.norm.mlir
// RUN: sed 's/seed = 0 : i64/clip_grad_norm = array<f64: 0.5, 0x7FF0000000000000>/' %S/../Inputs/mlp.mlir > %t.largest.mlir
// RUN: sed 's/seed = 0 : i64/clip_grad_norm = array<f64: 0x7FF0000000000000, 3.0>/' %S/../Inputs/mlp.mlir > %t.measured.mlir
// RUN: fsdp-opt %t.norm.mlir --fsdp-shard="mesh=2" | FileCheck %s
// RUN: fsdp-opt %t.norm.mlir --fsdp-shard="mesh=2 shard-layout=flat" | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %t.norm.mlir --fsdp-shard="mesh=1" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %t.largest.mlir --fsdp-shard="mesh=2" | FileCheck %s --check-prefix=LARGEST
// RUN: fsdp-opt %t.measured.mlir --fsdp-shard="mesh=2" | FileCheck %s --check-prefix=MEASURED
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2" | FileCheck %s --check-prefix=NONE
// RUN: fsdp-opt %t.norm.mlir --fsdp-pipeline="mesh=2" | FileCheck %s --check-prefix=COMMANDS

// CHECK-LABEL: func.func @step
// CHECK-SAME: (tensor<f32> {fsdp.output = "loss"}, tensor<f32> {fsdp.output = "grad_norm"})
// CHECK: %[[G1:.*]] = aten.call "div.Scalar"{{.*}} -> tensor<2x5xf32>
// CHECK-NEXT: %[[S1:.*]] = aten.call "fsdp_mlir::power_sum"([%[[G1]]]) backward {p = 2.000000e+00 : f64} : (tensor<2x5xf32>) -> tensor<f64>
// CHECK: %[[G0:.*]] = aten.call "div.Scalar"{{.*}} -> tensor<3x3xf32>
// CHECK-NEXT: %[[S0:.*]] = aten.call "fsdp_mlir::power_sum"([%[[G0]]])
// CHECK: %[[ALL:.*]] = aten.call "stack"([%[[S0]], %[[S1]]])
// CHECK-NEXT: %[[SUM:.*]] = aten.call "sum"(%[[ALL]])
// CHECK-NEXT: %[[TOTAL:.*]] = fsdp.all_reduce sum norm %[[SUM]] : tensor<f64>
// CHECK-NEXT: %[[ROOT:.*]] = aten.call "sqrt"(%[[TOTAL]])
// CHECK-NEXT: %[[NORM:.*]] = aten.call "_to_copy"(%[[ROOT]]) backward {dtype = f32
// CHECK-NEXT: %[[ADD:.*]] = aten.call "add.Scalar"(%[[NORM]]) backward {other = {{(1.0+e-06|9.99+5E-7)}} : f64}
// CHECK-NEXT: %[[INVERSE:.*]] = aten.call "reciprocal"(%[[ADD]])
// CHECK-NEXT: %[[RATIO:.*]] = aten.call "mul.Scalar"(%[[INVERSE]]) backward {other = 5.000000e-01 : f64}
// CHECK-NEXT: %[[FACTOR:.*]] = aten.call "clamp"(%[[RATIO]]) backward {max = 1.000000e+00 : f64}
// CHECK-NEXT: fsdp.update @sgd.0 @blocks.0.w, %[[G0]] [@"blocks.0.w/momentum_buffer"] scale %[[FACTOR]] : tensor<f32> : tensor<3x3xf32>
// CHECK-NEXT: fsdp.update @sgd.0 @blocks.1.w, %[[G1]] {{.*}} scale %[[FACTOR]]
// CHECK-NEXT: return %{{.*}}, %[[NORM]]

// FLAT-LABEL: func.func @step
// FLAT-COUNT-2: aten.call "fsdp_mlir::power_sum"
// FLAT: fsdp.all_reduce sum norm
// FLAT: fsdp.update @sgd.0 @"blocks.0/flat.0", %{{.*}} scale

// ONE-LABEL: func.func @step
// ONE: aten.call "fsdp_mlir::power_sum"([%{{.*}}, %{{.*}}])
// ONE-NOT: all_reduce
// ONE-NOT: stack
// ONE: fsdp.update {{.*}} scale

// LARGEST-LABEL: func.func @step
// LARGEST: aten.call "amax"
// LARGEST-NEXT: fsdp.all_reduce max norm
// LARGEST-NEXT: aten.call "_to_copy"

// Without a bound, the norm is an output and no more.
// MEASURED-LABEL: func.func @step
// MEASURED: aten.call "pow.Tensor_Scalar"
// MEASURED-NOT: scale
// MEASURED: return

// NONE-NOT: {{power_sum|clamp|all_reduce|scale}}

// The all-reduce follows the reductions on their stream.
// COMMANDS: fsdp.cmd.collective{{ +}}all_reduce {{.*}}channel = 1 : i64, count = 1 : i64, dtype = f64, reduced = #fsdp<collective_role norm>, stream = 2 : i64}
// COMMANDS: fsdp.cmd.update @sgd.0 @blocks.0.w, {{.*}} scale %{{.*}} : tensor<f32>

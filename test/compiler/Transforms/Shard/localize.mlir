// Tests that states get the type of a rank's part, gathers a slice and
// reductions a pad where rows do not divide, and that compute stays as it was.
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2" | FileCheck %s
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=8" | FileCheck %s --check-prefix=EIGHT
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=1" | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %S/../Inputs/mlp.mlir --fsdp-shard="mesh=2" -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK: fsdp.state @blocks.0.w parameter : tensor<3x3xf32> {global = tensor<5x3xf32>
// CHECK: fsdp.state @"blocks.0.w/momentum_buffer" optimizer : tensor<3x3xf32> {global = tensor<5x3xf32>
// CHECK: fsdp.state @calls buffer : tensor<2x4xf32> {persistent}
// CHECK-LABEL: func.func @step
// CHECK: %[[W0:.*]] = fsdp.load @blocks.0.w : tensor<3x3xf32>
// CHECK: %[[A0:.*]] = shard.all_gather %[[W0]] on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = "blocks.0"} : tensor<3x3xf32> -> tensor<6x3xf32>
// CHECK-NEXT: %[[S0:.*]] = aten.call "slice.Tensor"(%[[A0]]) {end = 5 : i64} : (tensor<6x3xf32>) -> tensor<5x3xf32>
// CHECK-NEXT: aten.call "t"(%[[S0]]) : (tensor<5x3xf32>)
// CHECK: %[[A1:.*]] = shard.all_gather %{{.*}} : tensor<2x5xf32> -> tensor<4x5xf32>
// CHECK-NEXT: aten.call "t"(%[[A1]])
// CHECK: %[[P:.*]] = aten.call "constant_pad_nd"(%{{.*}}) backward {pad = array<i64: 0, 0, 0, 1>} : (tensor<5x3xf32>) -> tensor<6x3xf32>
// CHECK-NEXT: %[[R:.*]] = shard.reduce_scatter %[[P]] on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = "blocks.0"} : tensor<6x3xf32> -> tensor<3x3xf32>
// CHECK-NEXT: %[[D:.*]] = aten.call "div.Scalar"(%[[R]]) backward {other = 2.000000e+00 : f64}
// CHECK: fsdp.update @sgd.0 @blocks.0.w, %[[D]]

// Some ranks have no rows of their own; their part is padding.
// EIGHT: fsdp.state @blocks.0.w parameter : tensor<1x3xf32> {global = tensor<5x3xf32>
// EIGHT: shard.all_gather {{.*}} : tensor<1x3xf32> -> tensor<8x3xf32>

// ONE: fsdp.state @blocks.0.w parameter : tensor<5x3xf32>
// ONE-NOT: {{all_gather|reduce_scatter|div.Scalar|clone|slice|constant_pad_nd|unshard}}

// REMARK: remark: {{.*}}each rank has its part", bytes=60, bytes_per_rank=36, state=blocks.0.w

// Tests that one gather of a parameter per region is left, with one slice, that
// regions stay apart, and that what is mapped is gathered once for all of them.
// RUN: fsdp-opt %s --fsdp-dedup-unshard | FileCheck %s
// RUN: fsdp-opt %s --fsdp-dedup-unshard -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<3xf32>}
// CHECK-LABEL: func.func @step
func.func @step() -> (tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %w = fsdp.load @w : tensor<2xf32>
  // CHECK: %[[A:.*]] = shard.all_gather %{{.*}} {fsdp.region = #fsdp<region forward>
  %0 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
  // CHECK-NEXT: %[[S:.*]] = aten.call "slice.Tensor"(%[[A]])
  %1 = aten.call "slice.Tensor"(%0) {end = 3 : i64} : (tensor<4xf32>) -> tensor<3xf32>
  // CHECK-NEXT: %[[R1:.*]] = aten.call "relu"(%[[S]])
  %2 = aten.call "relu"(%1) : (tensor<3xf32>) -> tensor<3xf32>
  %v = fsdp.load @w : tensor<2xf32>
  // CHECK-NOT: shard.all_gather
  // CHECK-NOT: slice
  %3 = shard.all_gather %v on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
  %4 = aten.call "slice.Tensor"(%3) {end = 3 : i64} : (tensor<4xf32>) -> tensor<3xf32>
  // CHECK: aten.call "neg"(%[[S]])
  %5 = aten.call "neg"(%4) : (tensor<3xf32>) -> tensor<3xf32>
  // CHECK: %[[B:.*]] = shard.all_gather %{{.*}} {fsdp.region = #fsdp<region backward>
  %6 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region backward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
  // CHECK-NEXT: aten.call "slice.Tensor"(%[[B]])
  %7 = aten.call "slice.Tensor"(%6) backward {end = 3 : i64} : (tensor<4xf32>) -> tensor<3xf32>
  return %2, %5, %7 : tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}

fsdp.state @flat parameter : tensor<1024xf32> {is_flat, mapped, unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2048xf32>}
// CHECK-LABEL: func.func @eval
func.func @eval() -> (tensor<2048xf32>, tensor<2048xf32>) {
  // CHECK: %[[A:.*]] = shard.all_gather
  // CHECK-NOT: shard.all_gather
  %w = fsdp.load @flat : tensor<1024xf32>
  %0 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<1024xf32> -> tensor<2048xf32>
  %1 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region backward>, fsdp.unit = ""} : tensor<1024xf32> -> tensor<2048xf32>
  // CHECK: return %[[A]], %[[A]]
  return %0, %1 : tensor<2048xf32>, tensor<2048xf32>
}

// REMARK: remark: {{.*}}one gather for all readers", readers=2, state=w
// REMARK: remark: {{.*}}one gather for all readers", readers=2, state=flat

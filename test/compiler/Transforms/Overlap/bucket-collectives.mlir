// Tests that the members of a unit are gathered in front of their first reader
// and reduced behind their last gradient, each at a multiple of 64 bytes, and
// that reductions of two element types are two buckets, each divided once by
// the number of ranks.
// RUN: fsdp-opt %s --fsdp-bucket-collectives | FileCheck %s
// RUN: fsdp-opt %s --fsdp-bucket-collectives -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "u"
fsdp.state @a parameter : tensor<2xf32> {trainable, unit = "u", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<4xf32>}
fsdp.state @b parameter : tensor<1x20xf32> {trainable, unit = "u", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2x20xf32>}
fsdp.state @c parameter : tensor<2xf64> {trainable, unit = "u", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<4xf64>}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}

// CHECK-LABEL: func.func @step
func.func @step(%ga: tensor<4xf32>, %gb: tensor<2x20xf32>, %gc: tensor<4xf64>) -> (tensor<4xf32>, tensor<2x20xf32>, tensor<4xf64>) {
  // CHECK: %[[A:.*]] = fsdp.load @a
  %a = fsdp.load @a : tensor<2xf32>
  // CHECK: %[[B:.*]] = fsdp.load @b
  // CHECK: %[[C:.*]] = fsdp.load @c
  // CHECK: %[[P:.*]] = fsdp.pack %[[A]], %[[B]], %[[C]] {members = [#fsdp.member<offset = 0, bytes = 8, blocks = 1>, #fsdp.member<offset = 64, bytes = 80, blocks = 1>, #fsdp.member<offset = 192, bytes = 16, blocks = 1>]} : (tensor<2xf32>, tensor<1x20xf32>, tensor<2xf64>) -> tensor<256xui8>
  // CHECK-NEXT: %[[G:.*]] = fsdp.all_gather %[[P]] {region = #fsdp<region forward>, unit = "u"} : tensor<256xui8> -> tensor<512xui8>
  // CHECK-NEXT: %[[U:.*]]:3 = fsdp.unpack %[[G]] {members = [#fsdp.member<offset = 0, bytes = 8, blocks = 2>, #fsdp.member<offset = 64, bytes = 80, blocks = 2>, #fsdp.member<offset = 192, bytes = 16, blocks = 2>]} : (tensor<512xui8>) -> (tensor<4xf32>, tensor<2x20xf32>, tensor<4xf64>)
  // CHECK-NEXT: aten.call "relu"(%[[U]]#0)
  // CHECK-NOT: shard.all_gather
  %0 = shard.all_gather %a on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = "u"} : tensor<2xf32> -> tensor<4xf32>
  %1 = aten.call "relu"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %b = fsdp.load @b : tensor<1x20xf32>
  %2 = shard.all_gather %b on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = "u"} : tensor<1x20xf32> -> tensor<2x20xf32>
  %3 = aten.call "relu"(%2) : (tensor<2x20xf32>) -> tensor<2x20xf32>
  %c = fsdp.load @c : tensor<2xf64>
  %4 = shard.all_gather %c on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = "u"} : tensor<2xf64> -> tensor<4xf64>
  %5 = aten.call "relu"(%4) : (tensor<4xf64>) -> tensor<4xf64>

  // CHECK: aten.call "relu"(%arg1) backward
  // CHECK: %[[Q:.*]] = fsdp.pack %{{.*}}, %{{.*}} {members = [#fsdp.member<offset = 0, bytes = 8, blocks = 2>, #fsdp.member<offset = 64, bytes = 80, blocks = 2>]} : (tensor<4xf32>, tensor<2x20xf32>) -> tensor<2x48xf32>
  // CHECK-NEXT: %[[S:.*]] = fsdp.reduce_scatter %[[Q]] {divisor = 2.000000e+00 : f64, unit = "u"} : tensor<2x48xf32> -> tensor<48xf32>
  // CHECK-NEXT: %[[V:.*]]:2 = fsdp.unpack %[[S]] {members = [#fsdp.member<offset = 0, bytes = 8, blocks = 1>, #fsdp.member<offset = 64, bytes = 80, blocks = 1>]} : (tensor<48xf32>) -> (tensor<2xf32>, tensor<1x20xf32>)
  // CHECK-NOT: aten.call "div.Scalar"
  // CHECK: fsdp.reduce_scatter %{{.*}} {divisor = 2.000000e+00 : f64, unit = "u"} : tensor<2x8xf64> -> tensor<8xf64>
  %6 = shard.reduce_scatter %ga on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = "u"} : tensor<4xf32> -> tensor<2xf32>
  %7 = aten.call "div.Scalar"(%6) {other = 2.0 : f64} : (tensor<2xf32>) -> tensor<2xf32>
  %8 = aten.call "relu"(%gb) backward : (tensor<2x20xf32>) -> tensor<2x20xf32>
  %9 = shard.reduce_scatter %8 on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = "u"} : tensor<2x20xf32> -> tensor<1x20xf32>
  %10 = aten.call "div.Scalar"(%9) {other = 2.0 : f64} : (tensor<1x20xf32>) -> tensor<1x20xf32>
  %11 = shard.reduce_scatter %gc on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = "u"} : tensor<4xf64> -> tensor<2xf64>
  %12 = aten.call "div.Scalar"(%11) {other = 2.0 : f64} : (tensor<2xf64>) -> tensor<2xf64>
  // CHECK: fsdp.update @rule @a, %[[V]]#0
  fsdp.update @rule @a, %7 [] : tensor<2xf32>
  fsdp.update @rule @b, %10 [] : tensor<1x20xf32>
  fsdp.update @rule @c, %12 [] : tensor<2xf64>
  return %1, %3, %5 : tensor<4xf32>, tensor<2x20xf32>, tensor<4xf64>
}

// REMARK: remark: {{.*}}parameters in one gather", bytes_per_rank=256, parameters=3, region=forward, unit=u
// REMARK: remark: {{.*}}gradients in one reduce-scatter", bytes=384, divisor=2, gradients=2, unit=u

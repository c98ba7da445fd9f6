// Tests that matrices of several shapes which fill no round by themselves are dealt out together: of three ranks two compute one of the large ones each, and the third a small one.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-split-matrix-rules | FileCheck %s
// RUN: fsdp-opt %s --fsdp-split-matrix-rules -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: ranks compute matrices of several shapes at a time{{.*}}matrices=3{{.*}}shapes=2{{.*}}us={{.*}}us_apart=
// REMARK: each rank computes one of these matrices{{.*}}last_parameter=c{{.*}}matrices=3{{.*}}shapes=2
// REMARK: updates look at whole matrices{{.*}}gflop_per_rank=0.268{{.*}}matrices=3{{.*}}per_rank=1

shard.grid @mesh(shape = 3) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @a parameter : tensor<171x512xf32> {trainable, global = tensor<512x512xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @b parameter : tensor<86x256xf32> {trainable, global = tensor<256x256xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @c parameter : tensor<171x512xf32> {trainable, global = tensor<512x512xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}

func.func private @small(%p: tensor<256x256xf32>, %g: tensor<256x256xf32>) -> tensor<256x256xf32> attributes {fsdp.rule} {
  %u = aten.call "mm"(%g, %g) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  %r = aten.call "sub.Tensor"(%p, %u) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %r : tensor<256x256xf32>
}
func.func private @large(%p: tensor<512x512xf32>, %g: tensor<512x512xf32>) -> tensor<512x512xf32> attributes {fsdp.rule} {
  %u = aten.call "mm"(%g, %g) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  %r = aten.call "sub.Tensor"(%p, %u) : (tensor<512x512xf32>, tensor<512x512xf32>) -> tensor<512x512xf32>
  return %r : tensor<512x512xf32>
}

// Rows of the small one have the size of the large ones': 171 x 512 x 4, a multiple of 64.
// CHECK: func.func @step(%[[A:.*]]: tensor<171x512xf32>, %[[B:.*]]: tensor<86x256xf32>, %[[C:.*]]: tensor<171x512xf32>)
func.func @step(%a: tensor<171x512xf32>, %b: tensor<86x256xf32>, %c: tensor<171x512xf32>) {
  // CHECK-NEXT: %[[ROWS:.*]] = fsdp.pack %[[A]], %[[C]], %[[B]] {members = [#fsdp.member<offset = 0, bytes = 350208, blocks = 1>, #fsdp.member<offset = 350208, bytes = 350208, blocks = 1>, #fsdp.member<offset = 700416, bytes = 88064, blocks = 1>]} {{.*}} -> tensor<3x350208xui8>
  // CHECK-NEXT: %[[MINE:.*]] = fsdp.all_to_all %[[ROWS]]
  // CHECK-NEXT: %[[LARGE:.*]] = fsdp.unpack %[[MINE]] {members = [#fsdp.member<offset = 0, bytes = 1048576, blocks = 1, shards = <0, 2>>]}
  // CHECK-NEXT: %[[PARTS:.*]] = fsdp.unpack %[[MINE]] {members = [#fsdp.member<offset = 0, bytes = 88064, blocks = 3, shards = <2, 3>>]} {{.*}} -> tensor<258x256xf32>
  // CHECK-NEXT: %[[TOGETHER:.*]] = fsdp.pack %[[PARTS]]
  // CHECK-NEXT: %[[SMALL:.*]] = fsdp.unpack %[[TOGETHER]] {members = [#fsdp.member<offset = 0, bytes = 262144, blocks = 1, shards = <2, 3>>]}
  // CHECK-NEXT: %[[U:.*]] = aten.call "mm"(%[[LARGE]], %[[LARGE]]) backward {fsdp.shards = #fsdp.shards<0, 2>}
  // CHECK-NEXT: %[[U0:.*]] = aten.call "constant_pad_nd"(%[[U]]) backward {fsdp.shards = #fsdp.shards<0, 2>
  // CHECK-NEXT: %[[V:.*]] = aten.call "mm"(%[[SMALL]], %[[SMALL]]) backward {fsdp.shards = #fsdp.shards<2, 3>}
  // CHECK-NEXT: %[[V0:.*]] = aten.call "constant_pad_nd"(%[[V]]) backward {fsdp.shards = #fsdp.shards<2, 3>
  // CHECK-NEXT: %[[RESULTS:.*]] = fsdp.pack %[[U0]], %[[V0]] {members = [#fsdp.member<offset = 0, bytes = 350208, blocks = 3, shards = <0, 2>>, #fsdp.member<offset = 0, bytes = 88064, blocks = 3, shards = <2, 3>>]}
  // CHECK-NEXT: %[[BACK:.*]] = fsdp.all_to_all %[[RESULTS]]
  // CHECK-NEXT: %[[OWN:.*]]:3 = fsdp.unpack %[[BACK]] {members = [#fsdp.member<offset = 0, bytes = 350208, blocks = 1>, #fsdp.member<offset = 350208, bytes = 350208, blocks = 1>, #fsdp.member<offset = 700416, bytes = 88064, blocks = 1>]}
  // CHECK-NEXT: fsdp.update @large.elements @a, %[[A]] [] given %[[OWN]]#0
  fsdp.update @large @a, %a [] : tensor<171x512xf32>
  // CHECK-NEXT: fsdp.update @small.elements @b, %[[B]] [] given %[[OWN]]#2
  fsdp.update @small @b, %b [] : tensor<86x256xf32>
  // CHECK-NEXT: fsdp.update @large.elements @c, %[[C]] [] given %[[OWN]]#1
  fsdp.update @large @c, %c [] : tensor<171x512xf32>
  return
}

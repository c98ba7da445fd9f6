// Tests that of two matrices of one rule each rank computes one, and that both
// compute a third one, which arrives meanwhile.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-split-matrix-rules | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-split-matrix-rules --fsdp-convert-to-async | FileCheck %s --check-prefix=ASYNC
// RUN: fsdp-opt %s --fsdp-split-matrix-rules -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// REMARK: each rank computes one of these matrices{{.*}}last_parameter=b{{.*}}matrices=2{{.*}}moved_bytes=256
// REMARK: each rank computes this matrix{{.*}}last_parameter=c{{.*}}matrices=1{{.*}}moved_bytes=32
// REMARK: updates look at whole matrices{{.*}}matrices=3{{.*}}per_rank=2

// ASYNC: %[[MINE:.*]] = fsdp.all_to_all_start
// ASYNC: %[[NEXT:.*]] = fsdp.all_gather_start
// ASYNC: fsdp.wait %[[MINE]]
// ASYNC: aten.call "norm.Scalar"
// ASYNC: %[[BACK:.*]] = fsdp.all_to_all_start
// ASYNC: fsdp.wait %[[NEXT]]
// ASYNC: aten.call "norm.Scalar"
// ASYNC: fsdp.wait %[[BACK]]
// ASYNC: fsdp.update @rule.elements @a

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @a parameter : tensor<2x4xf32> {trainable, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @b parameter : tensor<2x4xf32> {trainable, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @c parameter : tensor<2x4xf32> {trainable, global = tensor<3x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}

func.func private @rule(%p: tensor<3x4xf32>, %g: tensor<3x4xf32>) -> tensor<3x4xf32> attributes {fsdp.rule} {
  %b = aten.call "_to_copy"(%g) {dtype = bf16} : (tensor<3x4xf32>) -> tensor<3x4xbf16>
  %n = aten.call "norm.Scalar"(%b) : (tensor<3x4xbf16>) -> tensor<bf16>
  %u = aten.call "div.Tensor"(%b, %n) : (tensor<3x4xbf16>, tensor<bf16>) -> tensor<3x4xbf16>
  %new = aten.call "sub.Tensor"(%p, %u) : (tensor<3x4xf32>, tensor<3x4xbf16>) -> tensor<3x4xf32>
  return %new : tensor<3x4xf32>
}

// CHECK: func.func @step(%[[A:.*]]: tensor<2x4xf32>, %[[B:.*]]: tensor<2x4xf32>, %[[C:.*]]: tensor<2x4xf32>)
func.func @step(%a: tensor<2x4xf32>, %b: tensor<2x4xf32>, %c: tensor<2x4xf32>) {
  // CHECK: %[[A16:.*]] = aten.call "_to_copy"(%[[A]])
  // CHECK-NEXT: %[[B16:.*]] = aten.call "_to_copy"(%[[B]])
  // CHECK-NEXT: %[[ROWS:.*]] = fsdp.pack %[[A16]], %[[B16]] {members = [#fsdp.member<offset = 0, bytes = 16, blocks = 1>, #fsdp.member<offset = 64, bytes = 16, blocks = 1>]} {{.*}} -> tensor<2x64xui8>
  // CHECK-NEXT: %[[MINE:.*]] = fsdp.all_to_all %[[ROWS]] {unit = ""} : tensor<2x64xui8>
  // CHECK: %[[NEXT:.*]] = fsdp.all_gather
  // CHECK-NEXT: fsdp.unpack %[[MINE]] {members = [#fsdp.member<offset = 0, bytes = 16, blocks = 2>]} : (tensor<2x64xui8>) -> tensor<4x4xbf16>
  // CHECK: %[[MATRIX:.*]] = fsdp.unpack {{.*}} : (tensor<32xui8>) -> tensor<3x4xbf16>
  // CHECK-NEXT: aten.call "norm.Scalar"(%[[MATRIX]])
  // CHECK-NEXT: aten.call "div.Tensor"(%[[MATRIX]]
  // CHECK-NEXT: %[[PADDED:.*]] = aten.call "constant_pad_nd"
  // CHECK-NEXT: %[[RESULT:.*]] = fsdp.pack %[[PADDED]] {members = [#fsdp.member<offset = 0, bytes = 16, blocks = 2>]} : (tensor<4x4xbf16>) -> tensor<2x64xui8>
  // CHECK-NEXT: %[[BACK:.*]] = fsdp.all_to_all %[[RESULT]] {unit = ""} : tensor<2x64xui8>
  // CHECK-NEXT: fsdp.unpack %[[NEXT]]
  // CHECK-NOT: all_to_all
  // CHECK: fsdp.keep
  // CHECK-NEXT: %[[OWN:.*]]:2 = fsdp.unpack %[[BACK]]
  // CHECK-NEXT: fsdp.update @rule.elements @a, %[[A]] [] given %[[OWN]]#0
  fsdp.update @rule @a, %a [] : tensor<2x4xf32>
  // CHECK-NEXT: fsdp.update @rule.elements @b, %[[B]] [] given %[[OWN]]#1
  fsdp.update @rule @b, %b [] : tensor<2x4xf32>
  // CHECK: fsdp.update @rule.elements @c
  fsdp.update @rule @c, %c [] : tensor<2x4xf32>
  return
}

// Tests that a gather of parameters starts ahead where updates gather too, and
// that what updates exchange keeps its order behind the reductions.
// RUN: fsdp-opt %s --fsdp-schedule-overlap | FileCheck %s

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @v parameter : tensor<64xui8> {global = tensor<128xui8>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
fsdp.state @w parameter : tensor<16xf32> {trainable, global = tensor<32xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
func.func private @rule.elements(%p: tensor<*xf32>, %g: tensor<*xf32>, %u: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  %new = aten.call "sub.Tensor"(%p, %u) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %new : tensor<*xf32>
}

// CHECK: func.func @step({{.*}} attributes {fsdp.schedule = "overlap"}
// CHECK: %[[AHEAD:.*]] = fsdp.all_gather_start {{.*}} {region = #fsdp<region forward>
// CHECK: %[[SUM:.*]] = fsdp.reduce_scatter_start
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[AHEAD]]
// CHECK: aten.call "mm"
// CHECK: fsdp.wait %[[SUM]]
// CHECK: fsdp.all_gather_start {{.*}} {region = #fsdp<region update>
// CHECK-NEXT: fsdp.wait
// CHECK: fsdp.all_to_all_start
// CHECK-NEXT: fsdp.wait
// CHECK: fsdp.update
func.func @step(%x: tensor<64x64xf32> {fsdp.input = "x"}, %g: tensor<2x16xf32>) -> (tensor<64x64xf32> {fsdp.output = "loss"}, tensor<128xui8>) {
  %v = fsdp.load @v : tensor<64xui8>
  %y = aten.call "mm"(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %f = fsdp.all_gather_start %v {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %a = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
  %b = aten.call "neg"(%a) : (tensor<128xui8>) -> tensor<128xui8>
  %r = fsdp.reduce_scatter_start %g {unit = "", divisor = 2.0 : f64} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
  %mean = fsdp.wait %r : !fsdp.future<tensor<16xf32>>
  %z = aten.call "mm"(%y, %y) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
  %bytes = fsdp.pack %mean {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1>]} : (tensor<16xf32>) -> tensor<64xui8>
  %u = fsdp.all_gather_start %bytes {region = #fsdp<region update>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %whole = fsdp.wait %u : !fsdp.future<tensor<128xui8>>
  %both = fsdp.unpack %whole {members = [#fsdp.member<offset = 0, bytes = 128, blocks = 1>]} : (tensor<128xui8>) -> tensor<32xf32>
  %rows = fsdp.pack %both {members = [#fsdp.member<offset = 0, bytes = 128, blocks = 1>]} : (tensor<32xf32>) -> tensor<2x64xui8>
  %e = fsdp.all_to_all_start %rows {unit = ""} : !fsdp.future<tensor<2x64xui8>>
  %own = fsdp.wait %e : !fsdp.future<tensor<2x64xui8>>
  %given = fsdp.unpack %own {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1>]} : (tensor<2x64xui8>) -> tensor<16xf32>
  fsdp.update @rule.elements @w, %mean [] given %given : tensor<16xf32> : tensor<16xf32>
  return %z, %b : tensor<64x64xf32>, tensor<128xui8>
}

// Tests that copies from and to the host have streams of their own, and that what only a gather or an offload reads is
// waited for on its stream: compute goes on beside the whole chain.
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=3 --fsdp-plan-memory --fsdp-lower-to-commands --fsdp-verify-commands --mlir-print-debuginfo=false | FileCheck %s

// CHECK: fsdp.arenas = array<i64: {{[0-9]+}}, 0, 256>
module {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.unit "" root
  // CHECK: fsdp.state @a {{.*}}fsdp.place = #fsdp.place<2, 0, 64>
  fsdp.state @a parameter : tensor<16xf32> {global = tensor<32xf32>, on_host, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
  fsdp.state @b parameter : tensor<8xf32> {global = tensor<16xf32>, on_host, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %0 = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %0 : tensor<*xf32>
  }

  // CHECK-LABEL: func.func @step
  func.func @step(%g: tensor<2x32xf32> {fsdp.input = "g"}) -> (tensor<i64> {fsdp.output = "loss"}) {
    %a = fsdp.load @a : tensor<16xf32>
    %b = fsdp.load @b : tensor<8xf32>
    // CHECK: fsdp.cmd.wait 0 {stream = 4 : i64}
    // CHECK: fsdp.cmd.copy from {{.*}} : tensor<16xf32>, tensor<8xf32> to {{.*}}stream = 4 : i64
    // CHECK-NEXT: fsdp.cmd.record 1 {stream = 4 : i64}
    %f = fsdp.fetch_start %a, %b {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1>, #fsdp.member<offset = 64, bytes = 32, blocks = 1>], unit = "", region = #fsdp<region forward>} : (tensor<16xf32>, tensor<8xf32>) -> !fsdp.future<tensor<128xui8>>
    // CHECK-NEXT: fsdp.cmd.wait 1 {stream = 1 : i64}
    %in = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
    // CHECK: fsdp.cmd.collective{{ +}}all_gather
    %s = fsdp.all_gather_start %in {unit = "", region = #fsdp<region forward>} : tensor<128xui8> -> !fsdp.future<tensor<256xui8>>
    // CHECK: fsdp.cmd.collective{{ +}}reduce_scatter
    // CHECK-NEXT: fsdp.cmd.record [[SUM:[0-9]+]] {stream = 2 : i64}
    %r = fsdp.reduce_scatter_start %g {unit = "", divisor = 2.0} : tensor<2x32xf32> -> !fsdp.future<tensor<32xf32>>
    // CHECK-NEXT: fsdp.cmd.wait [[SUM]] {stream = 5 : i64}
    %m = fsdp.wait %r : !fsdp.future<tensor<32xf32>>
    // CHECK: fsdp.cmd.copy from {{.*}}stream = 5 : i64
    // CHECK-NEXT: fsdp.cmd.record [[OUT:[0-9]+]] {stream = 5 : i64}
    %o = fsdp.offload_start %m {unit = ""} : !fsdp.future<tensor<32xf32>>
    %all = fsdp.wait %s : !fsdp.future<tensor<256xui8>>
    // CHECK: fsdp.cmd.wait [[OUT]]{{$}}
    %h = fsdp.wait %o : !fsdp.future<tensor<32xf32>>
    %ga, %gb = fsdp.unpack %h {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1>, #fsdp.member<offset = 64, bytes = 32, blocks = 1>]} : (tensor<32xf32>) -> (tensor<16xf32>, tensor<8xf32>)
    // The update reads the host's gradient where it arrived.
    // CHECK-NOT: fsdp.cmd.copy
    fsdp.update @sgd @a, %ga [] : tensor<16xf32>
    fsdp.update @sgd @b, %gb [] : tensor<8xf32>
    %loss = aten.call "sum"(%all) : (tensor<256xui8>) -> tensor<i64>
    return %loss : tensor<i64>
  }
}

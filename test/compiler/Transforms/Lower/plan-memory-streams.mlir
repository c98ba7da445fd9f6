// Tests that a collective uses what it sends until its wait where it runs beside compute, and only at its start where
// it runs in the order of compute.
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=1 --fsdp-plan-memory | FileCheck %s --check-prefixes=CHECK,ONE
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=3 --fsdp-plan-memory | FileCheck %s --check-prefixes=CHECK,THREE

module {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  // CHECK-LABEL: func.func @step
  // ONE-SAME: fsdp.live_bytes = 320
  // THREE-SAME: fsdp.live_bytes = 448
  func.func @step(%x: tensor<32xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // 128 bytes each, but 64 of what is received: %x, %in, %f and %a at once, or all but %in.
    %in = aten.call "neg"(%x) : (tensor<32xf32>) -> tensor<32xf32>
    %rows = aten.call "view"(%in) {size = array<i64: 2, 16>} : (tensor<32xf32>) -> tensor<2x16xf32>
    %f = fsdp.reduce_scatter_start %rows {unit = ""} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
    %a = aten.call "abs"(%x) : (tensor<32xf32>) -> tensor<32xf32>
    %b = aten.call "abs"(%a) : (tensor<32xf32>) -> tensor<32xf32>
    %r = fsdp.wait %f : !fsdp.future<tensor<16xf32>>
    %s = aten.call "sum"(%r) : (tensor<16xf32>) -> tensor<f32>
    %t = aten.call "sum"(%b) : (tensor<32xf32>) -> tensor<f32>
    %l = aten.call "add.Tensor"(%s, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

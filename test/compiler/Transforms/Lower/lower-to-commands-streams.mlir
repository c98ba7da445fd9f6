// Tests that a collective on a side stream follows the compute stream by one event, and its wait follows it by another.
// RUN: fsdp-opt %s --fsdp-assign-streams=streams=3 --fsdp-plan-memory --fsdp-lower-to-commands | FileCheck %s

module {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.unit "" root

  // CHECK-LABEL: func.func @step
  func.func @step(%in: tensor<64xui8> {fsdp.input = "in"}, %g: tensor<2x16xf32> {fsdp.input = "g"}, %n: tensor<f64> {fsdp.input = "n"})
      -> (tensor<f32> {fsdp.output = "loss"}, tensor<128xui8> {fsdp.output = "all"}, tensor<16xf32> {fsdp.output = "sum"}, tensor<f64> {fsdp.output = "most"}) {
    // CHECK: fsdp.cmd.record 0
    // CHECK-NEXT: fsdp.cmd.wait 0 {stream = 1 : i64}
    // CHECK-NEXT: fsdp.cmd.collective{{ +}}all_gather {{.*}}region = #fsdp<region forward>, stream = 1 : i64, unit = ""}
    // CHECK-NEXT: fsdp.cmd.record 1 {stream = 1 : i64}
    %f = fsdp.all_gather_start %in {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
    // CHECK: fsdp.cmd.record 2
    // CHECK-NEXT: fsdp.cmd.wait 2 {stream = 2 : i64}
    // CHECK-NEXT: fsdp.cmd.collective{{ +}}reduce_scatter {{.*}}channel = 1 : i64{{.*}}stream = 2 : i64, unit = ""}
    // CHECK-NEXT: fsdp.cmd.record 3 {stream = 2 : i64}
    %r = fsdp.reduce_scatter_start %g {unit = ""} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
    // CHECK: fsdp.cmd.aten "sum"
    %loss = aten.call "sum"(%g) : (tensor<2x16xf32>) -> tensor<f32>
    // Waits stand where the reader needs them, in any order.
    // CHECK-NEXT: fsdp.cmd.wait 3
    %sum = fsdp.wait %r : !fsdp.future<tensor<16xf32>>
    // CHECK-NEXT: fsdp.cmd.wait 1
    %all = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
    // CHECK: fsdp.cmd.collective{{ +}}all_reduce {{.*}}channel = 1 : i64, count = 1 : i64, dtype = f64, op = #fsdp<reduce_op max>, reduced = #fsdp<collective_role norm>, stream = 2 : i64}
    %m = fsdp.all_reduce_start max norm %n : !fsdp.future<tensor<f64>>
    %most = fsdp.wait %m : !fsdp.future<tensor<f64>>
    return %loss, %all, %sum, %most : tensor<f32>, tensor<128xui8>, tensor<16xf32>, tensor<f64>
  }
}

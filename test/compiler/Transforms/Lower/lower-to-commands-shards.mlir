// Tests that what some shards alone compute becomes commands for these, each with the zeros behind its own members, and that reading it elsewhere is refused.
// RUN: fsdp-opt %s --fsdp-plan-memory --fsdp-lower-to-commands --fsdp-verify-commands --mlir-print-debuginfo=false | FileCheck %s
// RUN: sed 's/#fsdp.shards<0, 1>/#fsdp.shards<1, 2>/' %s | not fsdp-opt --fsdp-plan-memory --fsdp-lower-to-commands --fsdp-verify-commands 2>&1 | FileCheck %s --check-prefix=REFUSED

// REFUSED: error: {{.*}}C37: reads value {{[0-9]+}} on shard 0, which is there on shard 1 alone

shard.grid @mesh(shape = 3) {fsdp.axes = [#fsdp.axis<"shard", shard>]}

func.func @step(%x: tensor<8xi64> {fsdp.input = "x"}) -> (tensor<i64> {fsdp.output = "loss"}) {
  // CHECK: fsdp.cmd.aten "neg"({{.*}}shards = #fsdp.shards<0, 1>
  %negative = aten.call "neg"(%x) {fsdp.shards = #fsdp.shards<0, 1>} : (tensor<8xi64>) -> tensor<8xi64>
  // CHECK: fsdp.cmd.aten "add.Tensor"({{.*}}shards = #fsdp.shards<1, 3>
  %doubled = aten.call "add.Tensor"(%x, %x) {fsdp.shards = #fsdp.shards<1, 3>} : (tensor<8xi64>, tensor<8xi64>) -> tensor<8xi64>
  // CHECK: fsdp.cmd.copy from
  // CHECK-SAME: pieces = [#fsdp.piece<bytes = 64, shards = <0, 1>>, #fsdp.piece<source = -1, bytes = 128, destination_offset = 64, shards = <0, 1>>, #fsdp.piece<source = 1, bytes = 64, shards = <1, 3>>, #fsdp.piece<source = -1, bytes = 128, destination_offset = 64, shards = <1, 3>>]
  %in = fsdp.pack %negative, %doubled {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 1, shards = <0, 1>>, #fsdp.member<offset = 0, bytes = 64, blocks = 1, shards = <1, 3>>]} : (tensor<8xi64>, tensor<8xi64>) -> tensor<24xi64>
  %loss = aten.call "sum"(%in) : (tensor<24xi64>) -> tensor<i64>
  return %loss : tensor<i64>
}

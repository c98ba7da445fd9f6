// Tests that values of reshard-after-forward that do not exist, and ops that
// write a sharded parameter, are errors.
// RUN: not fsdp-opt %s --fsdp-insert-unshard="reshard-after-forward=2" 2>&1 | FileCheck %s --check-prefix=NUMBER
// RUN: not fsdp-opt %s --fsdp-insert-unshard 2>&1 | FileCheck %s

// NUMBER: error: reshard-after-forward=2 does not exist yet; there are auto, true and false
shard.grid @mesh(shape = 2)
fsdp.unit "" root
fsdp.state @w parameter : tensor<4xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>}
func.func @step() -> tensor<4xf32> {
  %w = fsdp.load @w : tensor<4xf32>
  // CHECK: error: "relu_" writes the sharded parameter "w"; only the optimizer may change it
  %0 = aten.call "relu_"(%w) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Tests that collectives which do not say what they belong to are refused.
// RUN: fsdp-opt %s --fsdp-bucket-collectives -split-input-file -verify-diagnostics

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.state @w parameter : tensor<2x4xf32> {trainable, global = tensor<4x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
func.func @step() -> (tensor<4x4xf32> {fsdp.output = "loss"}) {
  %w = fsdp.load @w : tensor<2x4xf32>
  // expected-error @+1 {{names no fsdp.unit to be bucketed with; run --fsdp-shard first}}
  %g = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 : tensor<2x4xf32> -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.state @w parameter : tensor<2x4xf32> {trainable, global = tensor<4x4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
func.func @step() -> (tensor<4x4xf32> {fsdp.output = "loss"}) {
  %w = fsdp.load @w : tensor<2x4xf32>
  // expected-error @+1 {{names no fsdp.region to be bucketed with; run --fsdp-shard first}}
  %g = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.unit = ""} : tensor<2x4xf32> -> tensor<4x4xf32>
  return %g : tensor<4x4xf32>
}

// Tests that malformed ops of the sharded phase are refused.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

func.func @step(%w: tensor<2xf32>) {
  // expected-error @below {{is of the region update; it is forward or backward, which read whole parameters}}
  %u = fsdp.unshard %w {unit = "", region = #fsdp<region update>} : tensor<2xf32>
  return
}

// -----

// expected-error @below {{has a gradient_divisor of 0.000000e+00; it is a number above 0}}
fsdp.unit "u" {gradient_divisor = 0.0 : f64}

// -----

// expected-error @below {{belongs to a unit, which only a parameter can}}
fsdp.state @b buffer : tensor<2xf32> {unit = ""}

// -----

// expected-error @below {{has `parameter` if and only if it is optimizer state or a gradient}}
fsdp.state @g gradient : tensor<2xf32>

// -----

fsdp.state @b buffer : tensor<2xf32>
func.func @accumulate(%g: tensor<2xf32>) {
  // expected-error @below {{adds to @b, which is no gradient state}}
  fsdp.accumulate %g, @b : tensor<2xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32>
fsdp.state @"w/grad" gradient : tensor<2xf32> {parameter = @w}
func.func @accumulate(%g: tensor<3xf32>) {
  // expected-error @below {{adds 'tensor<3xf32>' to a state of 'tensor<2xf32>'}}
  fsdp.accumulate %g, @"w/grad" : tensor<3xf32>
  return
}

// -----

// expected-error @below {{a grid has one #fsdp.axis per dimension}}
shard.grid @mesh(shape = 2x2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}

// -----

// expected-error @below {{has two axes of the name "a"}}
shard.grid @mesh(shape = 2x2) {fsdp.axes = [#fsdp.axis<"a", replicate>, #fsdp.axis<"a", shard>]}

// -----

// expected-error @below {{has 0 axes of the role shard; states are cut over one}}
shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"a", replicate>]}

// -----

// expected-error @below {{has the axis "b" of shards between those of replicas; replicas' axes are neighbours}}
shard.grid @mesh(shape = 2x2x2) {fsdp.axes = [#fsdp.axis<"a", replicate>, #fsdp.axis<"b", shard>, #fsdp.axis<"c", replicate>]}

// -----

func.func @step(%x: tensor<?xf32>) {
  // expected-error @below {{must be tensor of a static shape and of at most 2^62 bytes, but got 'tensor<?xf32>'}}
  %y = fsdp.unshard %x {unit = "", region = #fsdp<region forward>} : tensor<?xf32>
  return
}

// -----

func.func @step(%x: tensor<?xf32>) {
  // expected-error @below {{must be tensor of a static shape}}
  %y = fsdp.fetch %x {unit = "", region = #fsdp<region forward>} : tensor<?xf32>
  return
}

// -----

shard.grid @mesh(shape = 2)
func.func @step(%x: tensor<?xf32>) {
  // expected-error @below {{moves a tensor of a dynamic shape, or of more than 2^62 bytes}}
  %g = shard.all_gather %x on @mesh grid_axes = [0] gather_axis = 0 {fsdp.unit = ""} : tensor<?xf32> -> tensor<?xf32>
  return
}

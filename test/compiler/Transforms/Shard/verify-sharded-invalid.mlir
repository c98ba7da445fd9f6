// Tests that each constraint of the sharded phase is an error when broken.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-verify-sharded

// expected-error @below {{S1: the parameter belongs to no unit that exists}}
fsdp.state @w parameter : tensor<2xf32> {unit = "blocks.0"}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
// expected-error @below {{S2: the sharding does not split one dimension over the shard axis of a grid that exists}}
fsdp.state @w parameter : tensor<1x1xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0], [0]]>, global = tensor<2x2xf32>}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
// expected-error @below {{S2: 'tensor<2xf32>' is not one of 2 parts of 'tensor<5xf32>'}}
fsdp.state @w parameter : tensor<2xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<5xf32>}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<1xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2xf32>}
// expected-error @below {{S3: optimizer state is not split as its parameter @w}}
fsdp.state @"w/m" optimizer : tensor<2xf32> {parameter = @w}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<1xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2xf32>}
func.func @step() {
  %w = fsdp.load @w : tensor<1xf32>
  // expected-error @below {{S4: reads the local part of @w; only `shard.all_gather` may}}
  %0 = aten.call "relu"(%w) : (tensor<1xf32>) -> tensor<1xf32>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<1xf32> {trainable, unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2xf32>}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) {
  %r = shard.reduce_scatter %g on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = ""} : tensor<2xf32> -> tensor<1xf32>
  // expected-error @below {{S5: the gradient of @w is not the sum of a `shard.reduce_scatter` divided by 2}}
  fsdp.update @rule @w, %r [] : tensor<1xf32>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<1xf32> {unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2xf32>}
func.func @step() -> tensor<2xf32> {
  %w = fsdp.load @w : tensor<1xf32>
  // expected-error @below {{S6: `fsdp.unit` is not the unit of @w}}
  %0 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = "u"} : tensor<1xf32> -> tensor<2xf32>
  // expected-error @below {{S6: `fsdp.region` is neither forward nor backward}}
  %1 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.unit = ""} : tensor<1xf32> -> tensor<2xf32>
  %2 = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region backward>, fsdp.unit = ""} : tensor<1xf32> -> tensor<2xf32>
  // expected-error @below {{S6: forward reads a gather of the region backward}}
  %3 = aten.call "relu"(%2) : (tensor<2xf32>) -> tensor<2xf32>
  return %3 : tensor<2xf32>
}

// -----

func.func @step(%g: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{S7: is left; run fsdp-localize}}
  %0 = fsdp.reduce_grad %g {unit = ""} : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {trainable, unit = ""}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) -> tensor<2xf32> {
  %w = fsdp.load @w : tensor<2xf32>
  fsdp.update @rule @w, %g [] : tensor<2xf32>
  // expected-error @below {{S8: reads @w after its update}}
  %0 = aten.call "relu"(%w) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

fsdp.state @w parameter : tensor<2xf32> {replicated}
// expected-error @below {{S13: is not added to once, and no more, in @accumulate}}
fsdp.state @"w/grad" gradient : tensor<2xf32> {parameter = @w}
func.func @accumulate(%g: tensor<2xf32>) {
  fsdp.accumulate %g, @"w/grad" : tensor<2xf32>
  fsdp.accumulate %g, @"w/grad" : tensor<2xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32> {replicated}
// A sum that begins with 0.0 would make -0.0 of a gradient 0.0.
// expected-error @below {{S13: is not loaded once and then put back to -0.0 in @step}}
fsdp.state @"w/grad" gradient : tensor<2xf32> {parameter = @w}
func.func @step(%g: tensor<2xf32>) -> tensor<2xf32> {
  %0 = fsdp.load @"w/grad" : tensor<2xf32>
  %sum = aten.call "add.Tensor"(%0, %g) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = aten.call "full_like"(%sum) {fill_value = 0.0} : (tensor<2xf32>) -> tensor<2xf32>
  fsdp.store %1, @"w/grad" : tensor<2xf32>
  return %sum : tensor<2xf32>
}

// -----

fsdp.state @w parameter : tensor<2xf32> {replicated}
// expected-error @below {{S13: is named in @eval}}
fsdp.state @"w/grad" gradient : tensor<2xf32> {parameter = @w}
func.func @eval() -> tensor<2xf32> {
  %0 = fsdp.load @"w/grad" : tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {trainable, unit = "", on_host}
func.func @step() -> tensor<2xf32> {
  %w = fsdp.load @w : tensor<2xf32>
  // expected-error @below {{S15: reads @w, which is on the host, without an fsdp.fetch}}
  %0 = aten.call "relu"(%w) : (tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {trainable, unit = "", on_host}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{S15: the gradient of @w, or what it is scaled by, is not in the memory of what it updates}}
  fsdp.update @rule @w, %g [] : tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

// Not by the unit's own divisor.
shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root {gradient_divisor = 3.0 : f64}
fsdp.state @w parameter : tensor<1xf32> {trainable, unit = "", sharding = #fsdp.sharding<@mesh, [[0]]>, global = tensor<2xf32>}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) {
  %r = shard.reduce_scatter %g on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = ""} : tensor<2xf32> -> tensor<1xf32>
  %m = aten.call "div.Scalar"(%r) {other = 2.0 : f64} : (tensor<1xf32>) -> tensor<1xf32>
  // expected-error @below {{S5: the gradient of @w is not the sum of a `shard.reduce_scatter` divided by 3}}
  fsdp.update @rule @w, %m [] : tensor<1xf32>
  return
}

// -----

// With replicas earlier micro-batches' sums are not divided yet: they are added
// in front of the sum over replicas, not behind it.
shard.grid @mesh(shape = 2x2) {fsdp.axes = [#fsdp.axis<"replicate", replicate>, #fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<1xf32> {trainable, unit = "", sharding = #fsdp.sharding<@mesh, [[1]]>, global = tensor<2xf32>}
fsdp.state @"w/grad" gradient : tensor<1xf32> {parameter = @w}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) {
  %r = shard.reduce_scatter %g on @mesh grid_axes = [1] scatter_axis = 0 {fsdp.unit = ""} : tensor<2xf32> -> tensor<1xf32>
  %a = shard.all_reduce %r on @mesh grid_axes = [0] {fsdp.unit = ""} : tensor<1xf32> -> tensor<1xf32>
  %m = aten.call "div.Scalar"(%a) {other = 4.0 : f64} : (tensor<1xf32>) -> tensor<1xf32>
  %0 = fsdp.load @"w/grad" : tensor<1xf32>
  %sum = aten.call "add.Tensor"(%0, %m) : (tensor<1xf32>, tensor<1xf32>) -> tensor<1xf32>
  %1 = aten.call "full_like"(%sum) {fill_value = -0.0} : (tensor<1xf32>) -> tensor<1xf32>
  fsdp.store %1, @"w/grad" : tensor<1xf32>
  // expected-error @below {{S5: the gradient of @w is not the sum of a `shard.reduce_scatter` and a `shard.all_reduce` divided by 4}}
  fsdp.update @rule @w, %sum [] : tensor<1xf32>
  return
}

// -----

shard.grid @mesh(shape = 2x2) {fsdp.axes = [#fsdp.axis<"replicate", replicate>, #fsdp.axis<"shard", shard>]}
fsdp.state @w parameter : tensor<1xf32> {replicated}
fsdp.state @"w/grad" gradient : tensor<1xf32> {parameter = @w}
func.func @accumulate(%g: tensor<1xf32>) {
  // expected-error @below {{S13: is in @accumulate; only the last micro-batch sums over replicas}}
  %a = shard.all_reduce %g on @mesh grid_axes = [0] {fsdp.unit = ""} : tensor<1xf32> -> tensor<1xf32>
  fsdp.accumulate %a, @"w/grad" : tensor<1xf32>
  return
}

// -----

fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {trainable, unit = "", on_host}
fsdp.state @"w/m" optimizer : tensor<2xf32> {parameter = @w}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
  return %p, %m : tensor<*xf32>, tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{S16: @w is neither where it is updated nor staged there}}
  fsdp.update @rule @w, %g [@"w/m"] : tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {trainable, unit = "", on_host}
fsdp.state @"w/m" optimizer : tensor<2xf32> {parameter = @w}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
  return %p, %m : tensor<*xf32>, tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>, %stale: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @below {{S16: @w is updated in what is no copy of it for this alone}}
  %0 = fsdp.update @rule @w, %g [@"w/m"] staged %stale : tensor<2xf32> : tensor<2xf32> -> tensor<2xf32>
  fsdp.store %0, @w : tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

fsdp.unit "" root
fsdp.state @w parameter : tensor<2xf32> {trainable, unit = "", on_host}
fsdp.state @"w/m" optimizer : tensor<2xf32> {parameter = @w}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
  return %p, %m : tensor<*xf32>, tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) -> tensor<2xf32> {
  %w = fsdp.load @w : tensor<2xf32>
  %copy = fsdp.fetch %w {unit = "", region = #fsdp<region update>} : tensor<2xf32>
  // expected-error @below {{S16: @w is updated in a copy that is not stored in it}}
  %0 = fsdp.update @rule @w, %g [@"w/m"] staged %copy : tensor<2xf32> : tensor<2xf32> -> tensor<2xf32>
  return %g : tensor<2xf32>
}

// -----

shard.grid @mesh(shape = 2x2x2) {fsdp.axes = [#fsdp.axis<"a", replicate>, #fsdp.axis<"b", replicate>, #fsdp.axis<"c", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<1xf32> {trainable, unit = "", sharding = #fsdp.sharding<@mesh, [[2]]>, global = tensor<2xf32>}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) {
  %r = shard.reduce_scatter %g on @mesh grid_axes = [2] scatter_axis = 0 {fsdp.unit = ""} : tensor<2xf32> -> tensor<1xf32>
  // expected-error @below {{S5: is of the gradient of @w and not over all axes of the role replicate}}
  %a = shard.all_reduce %r on @mesh grid_axes = [0] {fsdp.unit = ""} : tensor<1xf32> -> tensor<1xf32>
  %m = aten.call "div.Scalar"(%a) {other = 8.0 : f64} : (tensor<1xf32>) -> tensor<1xf32>
  fsdp.update @rule @w, %m [] : tensor<1xf32>
  return
}

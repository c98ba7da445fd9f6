// Tests that malformed ops of the captured phase are refused.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics

// expected-error @below {{is trainable, which only a parameter can be}}
fsdp.state @b buffer : tensor<2xf32> {trainable}

// -----

// expected-error @below {{is persistent, which only a buffer can be}}
fsdp.state @p parameter : tensor<2xf32> {persistent}

// -----

// expected-error @below {{has `parameter` if and only if it is optimizer state}}
fsdp.state @o optimizer : tensor<2xf32>

// -----

func.func @step(%x: tensor<3x2xf32, #aten.strides<[1, 3]>>) {
  // expected-error @below {{adds up a tensor that is not row-major; clone it first}}
  %all = fsdp.sum_over_ranks %x : tensor<3x2xf32, #aten.strides<[1, 3]>>
  return
}

// -----

// expected-error @below {{has a dynamic shape}}
fsdp.state @p parameter : tensor<?xf32>

// -----

// expected-error @below {{has a global type and no sharding}}
fsdp.state @p parameter : tensor<2xf32> {global = tensor<4xf32>}

// -----

// expected-error @below {{has one of `flat` and `flat_offset`, which go together}}
fsdp.state @p parameter : tensor<2xf32> {flat = @f}

// -----

// expected-error @below {{lies in a flat state, so it is none, and is not split}}
fsdp.state @p parameter : tensor<2xf32> {is_flat, flat = @f, flat_offset = 0 : i64}

// -----

func.func @step() {
  // expected-error @below {{names the state @w, which the module does not have}}
  %w = fsdp.load @w : tensor<2xf32>
  return
}

// -----

// expected-note @below {{the state is here}}
fsdp.state @w parameter : tensor<2xf32>
func.func @step() {
  // expected-error @below {{reads 'tensor<3xf32>', but the state is 'tensor<2xf32>'}}
  %w = fsdp.load @w : tensor<3xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32>
func.func @step(%v: tensor<2xf32>) {
  // expected-error @below {{writes @w, which is not a buffer}}
  fsdp.store %v, @w : tensor<2xf32>
  return
}

// -----

fsdp.state @b buffer : tensor<2xf32>
func.func @step(%v: tensor<2xi64>) {
  // expected-error @below {{writes 'tensor<2xi64>', but the state is 'tensor<2xf32>'}}
  fsdp.store %v, @b : tensor<2xi64>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32>
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{updates @w, which is not a trainable parameter}}
  fsdp.update @rule @w, %g [] : tensor<2xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32> {trainable}
func.func @step(%g: tensor<3xf32>) {
  // expected-error @below {{has a gradient of 'tensor<3xf32>' for a parameter of 'tensor<2xf32>'}}
  fsdp.update @rule @w, %g [] : tensor<3xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32> {trainable}
fsdp.state @v parameter : tensor<2xf32> {trainable}
fsdp.state @"v/m" optimizer : tensor<2xf32> {parameter = @v}
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{uses @"v/m", which is not optimizer state of @w}}
  fsdp.update @rule @w, %g [@"v/m"] : tensor<2xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32> {trainable}
func.func private @rule(%p: tensor<*xf32>) -> tensor<*xf32>
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{names the rule @rule, which is not a function marked `fsdp.rule`}}
  fsdp.update @rule @w, %g [] : tensor<2xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2xf32> {trainable}
func.func private @rule(%p: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %p : tensor<*xf32>
}
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{passes 2 operands to a rule of 1}}
  fsdp.update @rule @w, %g [] : tensor<2xf32>
  return
}

// -----

// expected-error @below {{has a recipe for its first value, which only a parameter, a buffer or optimizer state can have}}
fsdp.state @c constant : tensor<2xf32> {init = [#fsdp.init<fill, values = [1.0]>]}

// -----

// expected-error @below {{has a recipe whose first step gives no value to every element; begin with fill, uniform or normal}}
fsdp.state @p parameter : tensor<2xf32> {init = [#fsdp.init<fill, values = [1.0], sizes = [1], strides = [1]>]}

// -----

// expected-error @below {{has a recipe whose first step gives no value to every element}}
fsdp.state @p parameter : tensor<2xf32> {init = [#fsdp.init<multiply, values = [1.0]>]}

// -----

// expected-error @below {{uniform takes 2 values, not 1}}
fsdp.state @p parameter : tensor<2xf32> {init = [#fsdp.init<uniform, values = [1.0]>]}

// -----

// expected-error @below {{sizes and strides go together, one of each per dimension}}
fsdp.state @p parameter : tensor<2xf32> {init = [#fsdp.init<fill, values = [1.0], sizes = [1]>]}

// -----

fsdp.training {seed = 1 : i64}
// expected-error @below {{is not the first of its module; a module has one}}
fsdp.training {seed = 2 : i64}

// -----

// expected-error @below {{has a number of epochs and one of steps; give one}}
fsdp.training {epochs = 1 : i64, steps = 10 : i64}

// -----

// expected-error @below {{clip_grad_norm is not a norm above 0 and its type of at least 1}}
fsdp.training {clip_grad_norm = array<f64: 0.0, 2.0>}

// -----

// expected-error @below {{clip_grad_value is not a number above 0}}
fsdp.training {clip_grad_value = -1.0 : f64}

// -----

// expected-error @below {{clips gradients by norm and by value; choose one}}
fsdp.training {clip_grad_norm = array<f64: 1.0, 2.0>, clip_grad_value = 1.0 : f64}

// -----

// expected-error @below {{scaler is not a growth_factor above 1, a backoff_factor between 0 and 1 and a growth_interval of at least 1}}
fsdp.training {scaler = {growth_factor = 2.0, backoff_factor = 2.0, growth_interval = 2000 : i64}}

// -----

// expected-error @below {{attribute 'accumulate' failed to satisfy constraint}}
fsdp.training {accumulate = 0 : i64}

// -----

// expected-error @below {{mesh_device is "tpu"; there are "cpu" and "cuda"}}
fsdp.training {mesh = array<i64: 2>, mesh_device = "tpu"}

// -----

// expected-error @below {{names a mesh's axes or device, but no mesh}}
fsdp.training {mesh_device = "cpu"}

// -----

// expected-error @below {{has fsdp.sede, which is no attribute of the fsdp dialect}}
module attributes {fsdp.sede = 1 : i64} {
}

// -----

// expected-error @below {{has "00000000000000000000000000000000" as fsdp.meaning; it is dictionaries of digests, 32 hexadecimal digits}}
module attributes {fsdp.meaning = "00000000000000000000000000000000"} {
}

// -----

// expected-error @below {{has "cpu" as fsdp.device; it is "cuda", or left out}}
module attributes {fsdp.device = "cpu"} {
}

// -----

func.func private @rule(%p: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  %lr = fsdp.hyperparameter "lr" of 0
  // expected-error @below {{has not as many f64 arguments and yielded numbers as operands and results}}
  %x = fsdp.recurrence %lr {
  ^bb0(%a: f64, %b: f64):
    fsdp.yield %a
  } : f64
  return %p : tensor<*xf32>
}

// -----

// expected-error @below {{is no tensor of elements with a size and of at most 2^62 bytes}}
fsdp.state @p parameter : tensor<4294967296x4294967296xf32>

// -----

// expected-error @below {{names the state @w, which the module does not have}}
fsdp.state @o optimizer : tensor<2xf32> {parameter = @w}

// -----

fsdp.state @b buffer : tensor<2xf32>
// expected-error @below {{is of @b, which is no parameter}}
fsdp.state @o optimizer : tensor<2xf32> {parameter = @b}

// -----

// expected-error @below {{names the state @f, which the module does not have}}
fsdp.state @p parameter : tensor<2xf32> {flat = @f, flat_offset = 0 : i64}

// -----

fsdp.state @f parameter : tensor<2xf32>
// expected-error @below {{lies in @f, which is no flat state}}
fsdp.state @p parameter : tensor<2xf32> {flat = @f, flat_offset = 0 : i64}

// -----

// expected-error @below {{is split over @mesh, which is not the module's first grid}}
fsdp.state @p parameter : tensor<2xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>}

// -----

shard.grid @mesh(shape = 2)
// expected-error @below {{is split on dimension 2 of 'tensor<2xf32>'}}
fsdp.state @p parameter : tensor<2xf32> {sharding = #fsdp.sharding<@mesh, [[], [], [0]]>}

// -----

shard.grid @mesh(shape = 2)
// expected-error @below {{is split over axis 5 of @mesh, which is not there or has no ranks}}
fsdp.state @p parameter : tensor<2xf32> {sharding = #fsdp.sharding<@mesh, [[5]]>}

// -----

shard.grid @mesh(shape = 0)
// expected-error @below {{is split over axis 0 of @mesh, which is not there or has no ranks}}
fsdp.state @p parameter : tensor<2xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>}

// -----

shard.grid @mesh(shape = ?)
// expected-error @below {{is split over axis 0 of @mesh, which is not there or has no ranks}}
fsdp.state @p parameter : tensor<2xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>}

// -----

// expected-error @below {{has an axis without ranks; each has one or more}}
shard.grid @mesh(shape = 0x2) {fsdp.axes = [#fsdp.axis<"a", replicate>, #fsdp.axis<"b", shard>]}

// -----

func.func private @rule(tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule}
fsdp.state @w parameter : tensor<2xf32> {trainable}
func.func @step(%g: tensor<2xf32>) {
  // expected-error @below {{names the rule @rule, which is not a function marked `fsdp.rule` with a body}}
  fsdp.update @rule @w, %g [] : tensor<2xf32>
  return
}

// -----

// expected-error @below {{is private and has fsdp.input, as programs have; a program is public}}
func.func private @eval(%x: tensor<2xf32> {fsdp.input = "x"}) {
  return
}

// -----

// expected-error @below {{is private and has fsdp.output, as programs have; a program is public}}
func.func private @eval(%x: tensor<f32>) -> (tensor<f32> {fsdp.output = "loss"}) {
  return %x : tensor<f32>
}

// -----

// expected-error @below {{has fsdp.inptu, which is no attribute of the fsdp dialect}}
func.func @eval(%x: tensor<2xf32> {fsdp.inptu = "x"}) {
  return
}

// -----

// expected-error @below {{has 1 : i64 as fsdp.output; it is a string, the output's name}}
func.func @eval(%x: tensor<f32>) -> (tensor<f32> {fsdp.output = 1 : i64}) {
  return %x : tensor<f32>
}

// -----

func.func @step(%x: f64) {
  // expected-error @below {{has not as many f64 arguments and yielded numbers}}
  %y = "fsdp.recurrence"(%x) ({
  ^bb0(%a: f64):
    "func.return"() : () -> ()
  }) : (f64) -> f64
  return
}

// -----

// expected-error @below {{is to be split on dimension 9 of 'tensor<4xf32>'}}
fsdp.state @w parameter : tensor<4xf32> {trainable, fsdp.shard_dim = 9 : i64}

// -----

// expected-error @below {{is to be split on dimension -1 of 'tensor<4xf32>'}}
fsdp.state @w parameter : tensor<4xf32> {trainable, fsdp.shard_dim = -1 : i64}

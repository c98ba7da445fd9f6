// Tests that a rule which looks at a whole matrix is refused where the matrix cannot be gathered by rows, or the rule follows from the steps before.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-split-matrix-rules

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.state @w parameter : tensor<2x2xf32> {trainable, global = tensor<2x4xf32>, sharding = #fsdp.sharding<@mesh, [[], [0]]>, unit = ""}
func.func private @rule(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {fsdp.rule} {
  return %g : tensor<2x4xf32>
}
func.func @step(%g: tensor<2x2xf32>) {
  // expected-error @below {{has to be split on dimension 0}}
  fsdp.update @rule @w, %g [] : tensor<2x2xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2x4xf32> {trainable, on_host}
func.func private @rule(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {fsdp.rule} {
  return %g : tensor<2x4xf32>
}
func.func @step(%g: tensor<2x4xf32>) {
  // expected-error @below {{which has to be on the device with its states; use offload=none}}
  fsdp.update @rule @w, %g [] : tensor<2x4xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<3x4xf32> {trainable}
func.func private @rule(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {fsdp.rule} {
  return %g : tensor<2x4xf32>
}
func.func @step(%g: tensor<3x4xf32>) {
  // expected-error @below {{is by a rule of 'tensor<2x4xf32>', but the parameter is 'tensor<3x4xf32>'}}
  fsdp.update @rule @w, %g [] : tensor<3x4xf32>
  return
}

// -----

fsdp.state @w parameter : tensor<2x4xf32> {trainable}
func.func private @rule(%p: tensor<2x4xf32>, %g: tensor<2x4xf32>) -> tensor<2x4xf32> attributes {fsdp.rule} {
  %lr = fsdp.hyperparameter "lr" of 0
  // expected-error @below {{follows from the steps before, which a rule that looks at whole matrices cannot}}
  %x = fsdp.recurrence %lr {
  ^bb0(%former: f64):
    fsdp.yield %former
  } : f64
  return %g : tensor<2x4xf32>
}
func.func @step(%g: tensor<2x4xf32>) {
  fsdp.update @rule @w, %g [] : tensor<2x4xf32>
  return
}

// Tests that a scaler without what it needs is an error.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-scale-loss

// expected-error @below {{has a scaler, but no state @fsdp.scaler.scale; import the step again}}
fsdp.training {scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}}

// -----

module {
  fsdp.training {scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}}
  fsdp.state @fsdp.scaler.scale buffer : tensor<f32>
  fsdp.state @fsdp.scaler.growth_tracker buffer : tensor<i32>
  fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64>
  fsdp.state @w parameter : tensor<4xf32> {trainable}
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %g : tensor<*xf32>
  }
  // expected-error @below {{has no op marked fsdp.cotangent, the gradient that backward starts with}}
  func.func @step(%g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
    fsdp.update @rule @w, %g [] : tensor<4xf32>
    return %g : tensor<4xf32>
  }
}

// -----

module {
  fsdp.training {scaler = {growth_factor = 2.0, backoff_factor = 0.5, growth_interval = 2000 : i64}}
  fsdp.state @fsdp.scaler.scale buffer : tensor<f32>
  fsdp.state @fsdp.scaler.growth_tracker buffer : tensor<i32>
  fsdp.state @fsdp.scaler.skipped_steps buffer : tensor<f64>
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    // expected-error @below {{follows from each step before, and steps may be skipped}}
    %x = fsdp.recurrence %lr {
    ^bb0(%former: f64):
      fsdp.yield %former
    } : f64
    return %g : tensor<*xf32>
  }
}

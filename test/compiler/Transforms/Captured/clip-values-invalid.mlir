// Tests that gradients that no program updates with cannot be clipped.
// RUN: fsdp-opt %s -verify-diagnostics --fsdp-clip-values

// expected-error @below {{clips gradients, but no program updates a parameter}}
fsdp.training {clip_grad_value = 0.5 : f64}
func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
  return %x : tensor<f32>
}

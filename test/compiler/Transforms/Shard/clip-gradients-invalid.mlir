// Tests that gradients that no program updates with cannot be clipped.
// RUN: fsdp-opt %s -verify-diagnostics --fsdp-clip-gradients

// expected-error @below {{clips gradients, but no program updates a parameter}}
fsdp.training {clip_grad_norm = array<f64: 1.0, 2.0>}
func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
  return %x : tensor<f32>
}

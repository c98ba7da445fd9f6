// Tests that what cannot be clipped, or clipped to, is an error.
// RUN: fsdp-opt %s -split-input-file -verify-diagnostics --fsdp-clip-gradients

// expected-error @below {{fsdp.clip_grad_norm is not a norm above 0 and its type of at least 1}}
module attributes {fsdp.clip_grad_norm = array<f64: 0.0, 2.0>} {
}

// -----

// expected-error @below {{fsdp.clip_grad_value is not a number above 0}}
module attributes {fsdp.clip_grad_value = -1.0 : f64} {
}

// -----

// expected-error @below {{gradients are clipped by norm and by value; choose one}}
module attributes {fsdp.clip_grad_norm = array<f64: 1.0, 2.0>, fsdp.clip_grad_value = 1.0 : f64} {
}

// -----

// expected-error @below {{gradients are to be clipped, but no program updates a parameter}}
module attributes {fsdp.clip_grad_norm = array<f64: 1.0, 2.0>} {
  func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

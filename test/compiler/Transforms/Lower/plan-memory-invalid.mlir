// Tests that plan-memory refuses what it cannot place.
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-memory -verify-diagnostics

module {
  // expected-error @+1 {{program 'step' is not one block of ops; control flow cannot be planned}}
  func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  ^never:
    return %x : tensor<f32>
  }
}

// -----

module {
  fsdp.state @n buffer : tensor<2x3xf32, #aten.strides<[1, 2]>> {persistent}
  func.func @step(%x: tensor<2x3xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{writes the state @n, which is not row-major; make the buffer contiguous}}
    fsdp.store %x, @n : tensor<2x3xf32>
    %l = aten.call "sum"(%x) : (tensor<2x3xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

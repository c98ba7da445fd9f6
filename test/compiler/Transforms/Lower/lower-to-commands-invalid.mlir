// Tests that lower-to-commands refuses what has no place, is not scheduled, writes in place, or computes on a side stream.
// RUN: fsdp-opt %s --split-input-file --fsdp-lower-to-commands -verify-diagnostics

module {
  // expected-error @+1 {{argument 0 of 'step' has no place; run --fsdp-plan-memory first}}
  func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module {
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{has a result without a place; run --fsdp-plan-memory first}}
    %l = aten.call "neg"(%x) : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module {
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{"neg_" writes an operand in place, which a plan cannot do; export the functional form}}
    %l = aten.call "neg_"(%x) {fsdp.places = [#fsdp.place<0, 0, 4>]} : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module {
  func.func @step(%x: tensor<64xui8> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 64>}) -> (tensor<128xui8> {fsdp.output = "loss"}) {
    // expected-error @+1 {{is not a scheduled op; run --fsdp-overlap first}}
    %l = fsdp.all_gather %x {unit = "", region = #fsdp<region forward>, fsdp.places = [#fsdp.place<0, 64, 128>]} : tensor<64xui8> -> tensor<128xui8>
    return %l : tensor<128xui8>
  }
}

// -----

module {
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<1, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{is on stream 1; only collectives, copies from and to the host and their waits are on another stream than 0}}
    %l = aten.call "neg"(%x) {fsdp.stream = 1 : i64, fsdp.places = [#fsdp.place<1, 64, 4>]} : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

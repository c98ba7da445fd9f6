// Tests that a plan is made of commands only, and names the pass to run first.
// RUN: fsdp-translate %s --fsdp-to-plan --split-input-file -verify-diagnostics

// expected-error @+1 {{is not lowered to commands; run fsdp-opt --fsdp-pipeline (or --fsdp-lower) first}}
module {
  func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 64, 0, 0>} {
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{is not a command; run fsdp-opt --fsdp-pipeline (or --fsdp-lower) first}}
    %l = aten.call "neg"(%x) : (tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 64, 0, 0>} {
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = arith.constant 2.0 : f64
    // expected-error @+1 {{is not a step scalar that a plan can evaluate}}
    %s = math.tan %lr : f64
    %d = aten.call "mul.Scalar"(%g, %s) : (tensor<*xf32>, f64) -> tensor<*xf32>
    return %d : tensor<*xf32>
  }
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 64, 0, 0>} {
  // expected-error @+1 {{is a rule of whole matrices, and an update has a part of one; run --fsdp-split-matrix-rules first}}
  func.func private @rule(%p: tensor<4x2xf32>, %g: tensor<4x2xf32>) -> tensor<4x2xf32> attributes {fsdp.rule} {
    return %g : tensor<4x2xf32>
  }
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    return %x : tensor<f32>
  }
}

// -----

// The plan's own checker has the last word.
module attributes {fsdp.arenas = array<i64: 128, 0, 0>} {
  // expected-error @+1 {{C5: program 'step': output 'loss': reads value 1 (float32 []) before it is written}}
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %l = fsdp.cmd.value {place = #fsdp.place<0, 64, 4>} : tensor<f32>
    return %l : tensor<f32>
  }
}

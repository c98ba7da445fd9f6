// Tests that programs are lowered on one stream only.
// RUN: fsdp-opt %s --fsdp-plan-memory --fsdp-lower-to-commands -verify-diagnostics

func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
  // expected-error @+1 {{is on stream 1; programs are lowered on one stream, which is 0}}
  %l = aten.call "neg"(%x) {fsdp.stream = 1 : i64} : (tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// RUN: fsdp-opt %s --fsdp-record-meaning -verify-diagnostics -split-input-file

fsdp.state @w parameter : tensor<4xf32> {trainable}
func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  return %g : tensor<*xf32>
}
func.func @step(%g: tensor<4xf32> {fsdp.input = "g"}, %s: tensor<f32> {fsdp.input = "s"}) {
  // expected-error @below {{is no update of a captured step}}
  fsdp.update @rule @w, %g [] scale %s : tensor<f32> : tensor<4xf32>
  return
}

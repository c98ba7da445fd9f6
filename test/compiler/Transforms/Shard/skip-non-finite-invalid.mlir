// Tests that a buffer which is read behind its store is an error: it could not keep its value.
// RUN: fsdp-opt %s -verify-diagnostics --fsdp-skip-non-finite=non-finite=skip

module {
  fsdp.training {}
  fsdp.state @calls buffer : tensor<4xf32>
  fsdp.state @w parameter : tensor<4xf32> {trainable}
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %g : tensor<*xf32>
  }
  func.func @step(%g: tensor<4xf32> {fsdp.input = "g"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
    // expected-error @below {{of @calls is not the last access to it, so a skipped step cannot keep its value; store it once, at the end}}
    fsdp.store %g, @calls : tensor<4xf32>
    %c = fsdp.load @calls : tensor<4xf32>
    fsdp.update @rule @w, %c [] : tensor<4xf32>
    return %g : tensor<4xf32>
  }
}

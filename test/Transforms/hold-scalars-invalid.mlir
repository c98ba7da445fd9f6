// Tests that a call which takes a number of the step in no tensor is refused.
// RUN: fsdp-opt %s --fsdp-hold-scalars -verify-diagnostics

module attributes {fsdp.device = "cuda"} {
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.learning_rate 0
    // expected-error @+1 {{is given a number that changes between steps as its argument 'lambd'; on GPUs such numbers are in memory, and no overload of it takes a tensor there}}
    %a = aten.call "softshrink"(%p, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    return %a : tensor<*xf32>
  }
}

// Tests that a call which takes a number of the step in no tensor is refused.
// RUN: fsdp-opt %s --fsdp-hold-scalars -split-input-file -verify-diagnostics

module attributes {fsdp.device = "cuda"} {
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    // expected-error @+1 {{is given a number that changes between steps as its argument 'lambd'; on GPUs such numbers are in memory, and no overload of it takes a tensor there}}
    %a = aten.call "softshrink"(%p, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    return %a : tensor<*xf32>
  }
}

// -----

module attributes {fsdp.device = "cuda"} {
  // A kernel takes its rate in a tensor, but not its betas.
  func.func private @fused(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>, %v: tensor<*xf32>, %n: tensor<f32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %beta = fsdp.hyperparameter "betas.0" of 0
    // expected-error @+1 {{its argument 'beta1'; on GPUs such numbers are in memory, and no overload of it takes a tensor there; give the optimizer fused=False}}
    %a:4 = aten.call "_fused_adam"([%p], [%g], [%m], [%v], [], [%n], %lr, %beta) {amsgrad = false, beta2 = 0.99 : f64, eps = 1.0e-08 : f64, maximize = false, weight_decay = 0.0 : f64} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<f32>, f64, f64) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
    return %a#0 : tensor<*xf32>
  }
}

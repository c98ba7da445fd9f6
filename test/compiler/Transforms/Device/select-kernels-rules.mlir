// Tests that on GPUs the rules of torch.optim's Adam, AdamW and SGD become calls
// of PyTorch's fused kernels, by what they say they are and with their options,
// and that any other rule stays.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels | FileCheck %s --check-prefix=CPU
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CPU-NOT: _fused

// What the rule computes is not looked at.
// REMARK: remark: [Passed] optimizer{{.*}}Function=adamw{{.*}}_fused_adamw
// CHECK-LABEL: func.func private @adamw
// CHECK-SAME: (%[[P:.*]]: tensor<*xf32>, %[[G:.*]]: tensor<*xf32>, %[[M:.*]]: tensor<*xf32>, %[[V:.*]]: tensor<*xf32>, %[[X:.*]]: tensor<*xf32>)
// CHECK-NEXT: %[[LR:.*]] = fsdp.hyperparameter "lr" of 1
// CHECK-NEXT: %[[N:.*]] = fsdp.step_count
// CHECK-NEXT: %[[STEP:.*]] = aten.call "scalar_tensor"(%[[N]]) {dtype = f32} : (f64) -> tensor<f32>
// CHECK-NEXT: %[[R:.*]]:5 = aten.call "_fused_adamw"([%[[P]]], [%[[G]]], [%[[M]]], [%[[V]]], [%[[X]]], [%[[STEP]]], %[[LR]]) {amsgrad = true, beta1 = 9.000000e-01 : f64, beta2 = 0.99{{.*}} : f64, eps = 1.000000e-08 : f64, maximize = true, weight_decay = 1.000000e-02 : f64}
// CHECK-NEXT: return %[[R]]#0, %[[R]]#2, %[[R]]#3, %[[R]]#4
func.func private @adamw(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>, %v: tensor<*xf32>, %x: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
    attributes {fsdp.rule, fsdp.optimizer = #fsdp.optimizer<"adamw", for_loop, {amsgrad = true, betas = array<f64: 0.9, 0.999>, eps = 1.0e-08 : f64, maximize = true, weight_decay = 0.01 : f64}>} {
  %lr = fsdp.hyperparameter "lr" of 1
  %p1 = aten.call "add.Tensor"(%p, %g, %lr) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  return %p1, %m, %v, %x : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// Its first step is like the others: the buffer is zero.
// REMARK: remark: [Passed] optimizer{{.*}}Function=momentum{{.*}}_fused_sgd
// CHECK-LABEL: func.func private @momentum
// CHECK-SAME: (%[[P:.*]]: tensor<*xbf16>, %[[G:.*]]: tensor<*xbf16>, %[[B:.*]]: tensor<*xbf16>)
// CHECK-NEXT: %[[LR:.*]] = fsdp.hyperparameter "lr" of 0
// CHECK-NEXT: %[[R:.*]]:3 = aten.call "_fused_sgd"([%[[P]]], [%[[G]]], [%[[B]]], %[[LR]]) {dampening = 0.000000e+00 : f64, is_first_step = false, maximize = false, momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 1.000000e-01 : f64}
// CHECK-NEXT: return %[[R]]#0, %[[R]]#2
func.func private @momentum(%p: tensor<*xbf16>, %g: tensor<*xbf16>, %b: tensor<*xbf16>) -> (tensor<*xbf16>, tensor<*xbf16>)
    attributes {fsdp.rule, fsdp.optimizer = #fsdp.optimizer<"sgd", fused, {dampening = 0.0 : f64, maximize = false, momentum = 0.9 : f64, nesterov = true, weight_decay = 0.1 : f64}>} {
  %lr = fsdp.hyperparameter "lr" of 0
  %p1 = aten.call "add.Tensor"(%p, %g, %lr) : (tensor<*xbf16>, tensor<*xbf16>, f64) -> tensor<*xbf16>
  return %p1, %b : tensor<*xbf16>, tensor<*xbf16>
}

// It counts the steps that give its parameters a gradient.
// REMARK: remark: [Passed] optimizer{{.*}}Function=lacking{{.*}}_fused_adamw
// CHECK-LABEL: func.func private @lacking
// CHECK: %[[STEP:.*]] = fsdp.step_count
// CHECK-NEXT: %[[MISSED:.*]] = fsdp.state_value @fsdp.missed.0
// CHECK-NEXT: %[[COUNT:.*]] = arith.subf %[[STEP]], %[[MISSED]]
// CHECK-NEXT: %[[T:.*]] = aten.call "scalar_tensor"(%[[COUNT]])
// CHECK-NEXT: aten.call "_fused_adamw"({{.*}}, [%[[T]]], %{{.*}})
fsdp.state @fsdp.missed.0 buffer : tensor<f64>
func.func private @lacking(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>, %v: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>)
    attributes {fsdp.rule, fsdp.missed = @fsdp.missed.0, fsdp.optimizer = #fsdp.optimizer<"adamw", fused, {amsgrad = false, betas = array<f64: 0.9, 0.999>, eps = 1.0e-08 : f64, maximize = false, weight_decay = 0.1 : f64}>} {
  %lr = fsdp.hyperparameter "lr" of 0
  %p1 = aten.call "add.Tensor"(%p, %g, %lr) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  return %p1, %m, %v : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// With dampening it is not: a flag of the kernel would say so.
// REMARK: remark: [Missed] optimizer{{.*}}Function=damped
// CHECK-LABEL: func.func private @damped
// CHECK-NOT: _fused
func.func private @damped(%p: tensor<*xf32>, %g: tensor<*xf32>, %b: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>)
    attributes {fsdp.rule, fsdp.optimizer = #fsdp.optimizer<"sgd", for_loop, {dampening = 0.5 : f64, maximize = false, momentum = 0.9 : f64, nesterov = false, weight_decay = 0.0 : f64}>} {
  %lr = fsdp.hyperparameter "lr" of 0
  %p1 = aten.call "add.Tensor"(%p, %g, %lr) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  return %p1, %b : tensor<*xf32>, tensor<*xf32>
}

// Somebody else's Adam is another optimizer.
// REMARK: remark: [Missed] optimizer{{.*}}Function=other
// CHECK-LABEL: func.func private @other
// CHECK-NOT: _fused
func.func private @other(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32>
    attributes {fsdp.rule, fsdp.optimizer = #fsdp.optimizer<"mine.Adam", for_loop, {amsgrad = false, betas = array<f64: 0.9, 0.999>, eps = 1.0e-08 : f64, maximize = false, weight_decay = 0.0 : f64}>} {
  %lr = fsdp.hyperparameter "lr" of 0
  %p1 = aten.call "add.Tensor"(%p, %g, %lr) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  return %p1 : tensor<*xf32>
}

func.func @step() {
  return
}

// Tests that in a plan for GPUs what changes between steps is read from memory:
// "scalar_tensor" alone takes such a number.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-hold-scalars -split-input-file | FileCheck %s

module attributes {fsdp.device = "cuda"} {
  fsdp.state @skipped buffer : tensor<f32>

  // One tensor for two readers of one number; a factor of an operand where no
  // overload takes a tensor; numbers that never change stay.
  // CHECK-LABEL: func.func private @rule
  // CHECK-SAME: (%[[P:.*]]: tensor<*xf32>, %[[G:.*]]: tensor<*xf32>, %[[M:.*]]: tensor<*xf32>)
  // CHECK-NEXT: %[[LR:.*]] = fsdp.hyperparameter "lr" of 0
  // CHECK-NEXT: %[[T:.*]] = aten.call "scalar_tensor"(%[[LR]]) {dtype = f32} : (f64) -> tensor<f32>
  // CHECK-NEXT: %[[A:.*]] = aten.call "mul.Tensor"(%[[P]], %[[T]]) : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
  // CHECK-NEXT: %[[B:.*]] = aten.call "mul.Tensor"(%[[G]], %[[T]])
  // CHECK-NEXT: %[[C:.*]] = aten.call "add.Tensor"(%[[A]], %[[B]])
  // CHECK-NEXT: %[[D:.*]] = aten.call "mul.Tensor"(%[[M]], %[[T]])
  // CHECK-NEXT: %[[E:.*]] = aten.call "addcdiv"(%[[C]], %[[D]], %[[G]])
  // CHECK-NEXT: %[[F:.*]] = aten.call "mul.Scalar"(%[[E]]) {other = 5.000000e-01 : f64}
  // CHECK-NEXT: return %[[F]] : tensor<*xf32>
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>, %m: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %a = aten.call "mul.Scalar"(%p, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    %b = aten.call "add.Tensor"(%a, %g, %lr) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
    %c = aten.call "addcdiv"(%b, %m, %g, %lr) : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
    %d = aten.call "mul.Scalar"(%c) {other = 0.5 : f64} : (tensor<*xf32>) -> tensor<*xf32>
    return %d : tensor<*xf32>
  }

  // A number that a tensor holds is a factor too; it stays on the device.
  // CHECK-LABEL: func.func private @item
  // CHECK-SAME: (%[[P:.*]]: tensor<2xf32>, %[[G:.*]]: tensor<2xf32>)
  // CHECK-NEXT: %[[N:.*]] = aten.call "norm.Scalar"(%[[P]])
  // CHECK-NEXT: %[[WIDE:.*]] = aten.call "_to_copy"(%[[N]]) {dtype = f64}
  // CHECK-NEXT: %[[T:.*]] = aten.call "_to_copy"(%[[WIDE]]) {dtype = f32} : (tensor<f64>) -> tensor<f32>
  // CHECK-NEXT: %[[B:.*]] = aten.call "mul.Tensor"(%[[G]], %[[T]])
  // CHECK-NEXT: aten.call "add.Tensor"(%[[P]], %[[B]]) : (tensor<2xf32>, tensor<2xf32>)
  func.func private @item(%p: tensor<2xf32>, %g: tensor<2xf32>) -> tensor<2xf32> attributes {fsdp.rule} {
    %n = aten.call "norm.Scalar"(%p) : (tensor<2xf32>) -> tensor<f32>
    %d = aten.call "_to_copy"(%n) {dtype = f64} : (tensor<f32>) -> tensor<f64>
    %a = aten.call "add.Tensor"(%p, %g, item %d) : (tensor<2xf32>, tensor<2xf32>, tensor<f64>) -> tensor<2xf32>
    return %a : tensor<2xf32>
  }

  // In half precision the number would be rounded to it first.
  // CHECK-LABEL: func.func private @half
  // CHECK: %[[P:.*]] = aten.call "_to_copy"(%{{.*}}) {dtype = f32} : (tensor<*xbf16>) -> tensor<*xf32>
  // CHECK: %[[R:.*]] = aten.call "mul.Tensor"(%[[P]], %{{.*}}) : (tensor<*xf32>, tensor<f32>) -> tensor<*xf32>
  // CHECK: aten.call "_to_copy"(%[[R]]) {dtype = bf16} : (tensor<*xf32>) -> tensor<*xbf16>
  func.func private @half(%p: tensor<*xbf16>, %g: tensor<*xbf16>) -> tensor<*xbf16> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %a = aten.call "mul.Scalar"(%p, %lr) : (tensor<*xbf16>, f64) -> tensor<*xbf16>
    return %a : tensor<*xbf16>
  }

  // A fused kernel has its rate in f32. What follows from a state is computed
  // where that is, from the number before the step.
  // CHECK-LABEL: func.func private @fused
  // CHECK: %[[LR:.*]] = aten.call "scalar_tensor"(%{{.*}}) {dtype = f32}
  // CHECK: %[[N:.*]] = fsdp.step_count
  // CHECK: %[[STEP:.*]] = aten.call "scalar_tensor"(%[[N]]) {dtype = f64} : (f64) -> tensor<f64>
  // CHECK: %[[S:.*]] = fsdp.state_value @skipped
  // CHECK: %[[SKIPPED:.*]] = aten.call "scalar_tensor"(%[[S]]) {dtype = f64} : (f64) -> tensor<f64>
  // CHECK: %[[DONE:.*]] = aten.call "sub.Tensor"(%[[STEP]], %[[SKIPPED]]) : (tensor<f64>, tensor<f64>) -> tensor<f64>
  // CHECK: %[[STEPS:.*]] = aten.call "_to_copy"(%[[DONE]]) {dtype = f32}
  // CHECK: aten.call "_fused_adam.tensor_lr"({{.*}}, [], [%[[STEPS]]], %[[LR]])
  func.func private @fused(%p: tensor<*xf64>, %g: tensor<*xf64>, %m: tensor<*xf64>, %v: tensor<*xf64>) -> (tensor<*xf64>, tensor<*xf64>, tensor<*xf64>) attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %n = fsdp.step_count
    %s = fsdp.state_value @skipped
    %done = arith.subf %n, %s : f64
    %steps = aten.call "scalar_tensor"(%done) {dtype = f32} : (f64) -> tensor<f32>
    %r:4 = aten.call "_fused_adam"([%p], [%g], [%m], [%v], [], [%steps], %lr) {amsgrad = false, beta1 = 0.9 : f64, beta2 = 0.999 : f64, eps = 1.0e-8 : f64, maximize = false, weight_decay = 0.0 : f64} : (tensor<*xf64>, tensor<*xf64>, tensor<*xf64>, tensor<*xf64>, tensor<f32>, f64) -> (tensor<*xf64>, tensor<*xf64>, tensor<*xf64>, tensor<*xf64>)
    return %r#0, %r#2, %r#3 : tensor<*xf64>, tensor<*xf64>, tensor<*xf64>
  }
}

// -----

// On a CPU nothing is in the way of a number.
module {
  // CHECK-LABEL: func.func private @cpu
  // CHECK: aten.call "mul.Scalar"(%{{.*}}, %{{.*}}) : (tensor<*xf32>, f64)
  func.func private @cpu(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %lr = fsdp.hyperparameter "lr" of 0
    %a = aten.call "mul.Scalar"(%p, %lr) : (tensor<*xf32>, f64) -> tensor<*xf32>
    return %a : tensor<*xf32>
  }
}

// Tests that on GPUs the rules of torch.optim's Adam, AdamW and SGD become calls
// of PyTorch's fused kernels, with their options, and that any other rule stays.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels | FileCheck %s --check-prefix=CPU
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CPU-NOT: _fused

// Decay of the parameter by the rate, and the largest second moment.
// REMARK: remark: [Passed] optimizer{{.*}}Function=adamw{{.*}}_fused_adamw
// CHECK-LABEL: func.func private @adamw
// CHECK-SAME: (%[[P:.*]]: tensor<*xf32>, %[[G:.*]]: tensor<*xf32>, %[[M:.*]]: tensor<*xf32>, %[[V:.*]]: tensor<*xf32>, %[[X:.*]]: tensor<*xf32>)
// CHECK-NEXT: %[[LR:.*]] = fsdp.learning_rate 1
// CHECK-NEXT: %[[N:.*]] = fsdp.step_count
// CHECK-NEXT: %[[STEP:.*]] = aten.call "scalar_tensor"(%[[N]]) {dtype = f32} : (f64) -> tensor<f32>
// CHECK-NEXT: %[[R:.*]]:5 = aten.call "_fused_adamw"([%[[P]]], [%[[G]]], [%[[M]]], [%[[V]]], [%[[X]]], [%[[STEP]]], %[[LR]]) {amsgrad = true, beta1 = 9.000000e-01 : f64, beta2 = 0.99{{.*}} : f64, eps = 1.000000e-08 : f64, maximize = true, weight_decay = 1.000000e-02 : f64}
// CHECK-NEXT: return %[[R]]#0, %[[R]]#2, %[[R]]#3, %[[R]]#4
func.func private @adamw(%p: tensor<*xf32>, %g0: tensor<*xf32>, %m: tensor<*xf32>, %v: tensor<*xf32>, %x: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
  %one = arith.constant 1.0 : f64
  %decay = arith.constant 0.01 : f64
  %beta1 = arith.constant 0.9 : f64
  %beta2 = arith.constant 0.999 : f64
  %half = arith.constant 0.5 : f64
  %lr = fsdp.learning_rate 1
  %n = fsdp.step_count
  %g = aten.call "neg"(%g0) : (tensor<*xf32>) -> tensor<*xf32>
  %d = arith.mulf %lr, %decay : f64
  %k = arith.subf %one, %d : f64
  %p1 = aten.call "mul.Scalar"(%p, %k) : (tensor<*xf32>, f64) -> tensor<*xf32>
  %m1 = aten.call "lerp.Scalar"(%m, %g) {weight = 0.099999999999999978 : f64} : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %v0 = aten.call "mul.Scalar"(%v) {other = 0.999 : f64} : (tensor<*xf32>) -> tensor<*xf32>
  %v1 = aten.call "addcmul"(%v0, %g, %g) {value = 0.0010000000000000009 : f64} : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %b1 = math.powf %beta1, %n : f64
  %c1 = arith.subf %one, %b1 : f64
  %s = arith.divf %lr, %c1 : f64
  %b2 = math.powf %beta2, %n : f64
  %c2 = arith.subf %one, %b2 : f64
  %r = math.powf %c2, %half : f64
  %x1 = aten.call "maximum"(%x, %v1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  %q = aten.call "sqrt"(%x1) : (tensor<*xf32>) -> tensor<*xf32>
  %q1 = aten.call "div.Scalar"(%q, %r) : (tensor<*xf32>, f64) -> tensor<*xf32>
  %q2 = aten.call "add.Scalar"(%q1) {other = 1.0e-08 : f64} : (tensor<*xf32>) -> tensor<*xf32>
  %t = arith.negf %s : f64
  %p2 = aten.call "addcdiv"(%p1, %m1, %q2, %t) : (tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  return %p2, %m1, %v1, %x1 : tensor<*xf32>, tensor<*xf32>, tensor<*xf32>, tensor<*xf32>
}

// Its first step is like the others: the buffer is zero.
// REMARK: remark: [Passed] optimizer{{.*}}Function=momentum{{.*}}_fused_sgd
// CHECK-LABEL: func.func private @momentum
// CHECK-SAME: (%[[P:.*]]: tensor<*xbf16>, %[[G:.*]]: tensor<*xbf16>, %[[B:.*]]: tensor<*xbf16>)
// CHECK-NEXT: %[[LR:.*]] = fsdp.learning_rate 0
// CHECK-NEXT: %[[R:.*]]:3 = aten.call "_fused_sgd"([%[[P]]], [%[[G]]], [%[[B]]], %[[LR]]) {dampening = 0.000000e+00 : f64, is_first_step = false, maximize = false, momentum = 9.000000e-01 : f64, nesterov = true, weight_decay = 1.000000e-01 : f64}
// CHECK-NEXT: return %[[R]]#0, %[[R]]#2
func.func private @momentum(%p: tensor<*xbf16>, %g0: tensor<*xbf16>, %b: tensor<*xbf16>) -> (tensor<*xbf16>, tensor<*xbf16>) attributes {fsdp.rule} {
  %one = arith.constant 1.0 : f64
  %minus = arith.constant -1.0 : f64
  %mu = arith.constant 0.9 : f64
  %lr = fsdp.learning_rate 0
  %n = fsdp.step_count
  %first = arith.cmpf oeq, %n, %one : f64
  %k = arith.select %first, %minus, %mu : f64
  %undamped = arith.select %first, %one, %one : f64
  %g = aten.call "add.Tensor"(%g0, %p) {alpha = 0.1 : f64} : (tensor<*xbf16>, tensor<*xbf16>) -> tensor<*xbf16>
  %b0 = aten.call "mul.Scalar"(%b, %k) : (tensor<*xbf16>, f64) -> tensor<*xbf16>
  %b1 = aten.call "add.Tensor"(%b0, %g, %undamped) : (tensor<*xbf16>, tensor<*xbf16>, f64) -> tensor<*xbf16>
  %d = aten.call "add.Tensor"(%g, %b1) {alpha = 0.9 : f64} : (tensor<*xbf16>, tensor<*xbf16>) -> tensor<*xbf16>
  %t = arith.negf %lr : f64
  %p1 = aten.call "add.Tensor"(%p, %d, %t) : (tensor<*xbf16>, tensor<*xbf16>, f64) -> tensor<*xbf16>
  return %p1, %b1 : tensor<*xbf16>, tensor<*xbf16>
}

// With dampening it is not: a flag of the kernel would say so.
// REMARK: remark: [Missed] optimizer{{.*}}Function=damped
// CHECK-LABEL: func.func private @damped
// CHECK-NOT: _fused
func.func private @damped(%p: tensor<*xf32>, %g: tensor<*xf32>, %b: tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>) attributes {fsdp.rule} {
  %one = arith.constant 1.0 : f64
  %half = arith.constant 0.5 : f64
  %minus = arith.constant -1.0 : f64
  %mu = arith.constant 0.9 : f64
  %lr = fsdp.learning_rate 0
  %n = fsdp.step_count
  %first = arith.cmpf oeq, %n, %one : f64
  %k = arith.select %first, %minus, %mu : f64
  %damped = arith.select %first, %one, %half : f64
  %b0 = aten.call "mul.Scalar"(%b, %k) : (tensor<*xf32>, f64) -> tensor<*xf32>
  %b1 = aten.call "add.Tensor"(%b0, %g, %damped) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  %t = arith.negf %lr : f64
  %p1 = aten.call "add.Tensor"(%p, %b1, %t) : (tensor<*xf32>, tensor<*xf32>, f64) -> tensor<*xf32>
  return %p1, %b1 : tensor<*xf32>, tensor<*xf32>
}

func.func @step() {
  return
}

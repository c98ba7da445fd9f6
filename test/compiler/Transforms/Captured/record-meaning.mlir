// RUN: fsdp-opt %s --fsdp-record-meaning | FileCheck %s
// RUN: sed 's/seed = 0 : i64/clip_grad_norm = array<f64: 0.5, 2.0>/' %S/../Inputs/mlp.mlir > %t.mlir
// RUN: fsdp-opt %t.mlir --fsdp-pipeline="mesh=2" -o /dev/null --remarks-filter=fsdp-verify-commands --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// At the end of the pipeline: what commands come to, and what the step has not.
// REMARK: [Passed] meaning {{.*}}Function=step | Remark="computed as by the sequential step", covered=6
// REMARK: [Missed] meaning {{.*}}"not shown to be the sequential step's: the sequential step has no such thing", count=1, first="output 'grad_norm'"

// Outputs, buffers, gradients and updates, each by its name.

module {
  fsdp.state @w parameter : tensor<4x2xf32> {trainable}
  fsdp.state @v parameter : tensor<4x2xf32> {trainable}
  fsdp.state @count buffer : tensor<f32>
  fsdp.state @nothing buffer : tensor<0xf32>

  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %new = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %new : tensor<*xf32>
  }

  // Two parameters of one type have gradients of their own, and the same of
  // equal operators. What has no elements has no digest.
  // CHECK-LABEL: func.func @step
  // CHECK-SAME: fsdp.meaning = {buffers = {count = "{{[0-9a-f]+}}"},
  // CHECK-SAME: gradients = {v = "[[$V:[0-9a-f]+]]", w = "[[$W:[0-9a-f]+]]"},
  // CHECK-SAME: outputs = {loss = "{{[0-9a-f]+}}"},
  // CHECK-SAME: updates = {v = "[[VRULE:[0-9a-f]+]]", w = "[[WRULE:[0-9a-f]+]]"}}
  func.func @step(%x: tensor<4x2xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w = fsdp.load @w : tensor<4x2xf32>
    %v = fsdp.load @v : tensor<4x2xf32>
    %gw = aten.call "mul.Tensor"(%x, %v) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %gv = aten.call "mul.Tensor"(%x, %w) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %loss = aten.call "sum"(%gw) : (tensor<4x2xf32>) -> tensor<f32>
    fsdp.store %loss, @count : tensor<f32>
    %none = aten.call "full"() {size = array<i64: 0>, fill_value = 1.0 : f64, dtype = f32} : () -> tensor<0xf32>
    fsdp.store %none, @nothing : tensor<0xf32>
    fsdp.update @sgd @w, %gw [] : tensor<4x2xf32>
    fsdp.update @sgd @v, %gv [] : tensor<4x2xf32>
    return %loss : tensor<f32>
  }

  // Views, clones and a second computation do not show.
  // CHECK-LABEL: func.func @twice
  // CHECK-SAME: fsdp.meaning = {gradients = {v = "[[$V]]", w = "[[$W]]"},
  func.func @twice(%x: tensor<4x2xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w = fsdp.load @w : tensor<4x2xf32>
    %v = fsdp.load @v : tensor<4x2xf32>
    %t = aten.call "t"(%v) : (tensor<4x2xf32>) -> tensor<2x4xf32, #aten.strides<[1, 2]>>
    %same = aten.call "t"(%t) : (tensor<2x4xf32, #aten.strides<[1, 2]>>) -> tensor<4x2xf32>
    %copy = aten.call "clone"(%w) : (tensor<4x2xf32>) -> tensor<4x2xf32>
    %first = aten.call "mul.Tensor"(%x, %v) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %gw = aten.call "mul.Tensor"(%x, %same) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %gv = aten.call "mul.Tensor"(%x, %copy) : (tensor<4x2xf32>, tensor<4x2xf32>) -> tensor<4x2xf32>
    %loss = aten.call "sum"(%first) : (tensor<4x2xf32>) -> tensor<f32>
    fsdp.update @sgd @w, %gw [] : tensor<4x2xf32>
    fsdp.update @sgd @v, %gv [] : tensor<4x2xf32>
    return %loss : tensor<f32>
  }
}

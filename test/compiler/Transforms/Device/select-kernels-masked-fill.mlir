// Tests that on GPUs torch.where takes the place of masked_fill with a value that
// the host would have to wait for, where it gives the same elements.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels | FileCheck %s --check-prefix=CPU

// CPU-NOT: where.self

// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[X:.*]]: tensor<4x3xf32>, %[[MASK:.*]]: tensor<3xi1>, %[[V:.*]]: tensor<f32>
// CHECK-NEXT: %[[Y:.*]] = aten.call "where.self"(%[[MASK]], %[[V]], %[[X]]) backward
// CHECK-NEXT: return %[[Y]]
func.func @step(%x: tensor<4x3xf32>, %mask: tensor<3xi1>, %v: tensor<f32>) -> tensor<4x3xf32> {
  %y = aten.call "masked_fill.Tensor"(%x, %mask, %v) backward : (tensor<4x3xf32>, tensor<3xi1>, tensor<f32>) -> tensor<4x3xf32>
  return %y : tensor<4x3xf32>
}

// torch.where would compute in the wider of two types.
// CHECK-LABEL: func.func @another_type
// CHECK-NEXT: "masked_fill.Tensor"
func.func @another_type(%x: tensor<3xbf16>, %mask: tensor<3xi1>, %v: tensor<f32>) -> tensor<3xbf16> {
  %y = aten.call "masked_fill.Tensor"(%x, %mask, %v) : (tensor<3xbf16>, tensor<3xi1>, tensor<f32>) -> tensor<3xbf16>
  return %y : tensor<3xbf16>
}

// Strides that are not row-major stay what they were.
// CHECK-LABEL: func.func @transposed
// CHECK-NEXT: "masked_fill.Tensor"
func.func @transposed(%x: tensor<4x3xf32, #aten.strides<[1, 4]>>, %mask: tensor<4x3xi1>, %v: tensor<f32>) -> tensor<4x3xf32, #aten.strides<[1, 4]>> {
  %y = aten.call "masked_fill.Tensor"(%x, %mask, %v) : (tensor<4x3xf32, #aten.strides<[1, 4]>>, tensor<4x3xi1>, tensor<f32>) -> tensor<4x3xf32, #aten.strides<[1, 4]>>
  return %y : tensor<4x3xf32, #aten.strides<[1, 4]>>
}

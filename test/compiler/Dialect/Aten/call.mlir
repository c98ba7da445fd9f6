// Tests that every form of aten.call parses and prints as it was written.
// RUN: fsdp-opt %s | fsdp-opt --mlir-print-debuginfo=false | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-op-generic | fsdp-opt --mlir-print-debuginfo=false | FileCheck %s

// CHECK-LABEL: func.func @forms
// CHECK-SAME: (%[[X:.*]]: tensor<4x8xf32>, %[[I:.*]]: tensor<3xi64>, %[[S:.*]]: f64)
func.func @forms(%x: tensor<4x8xf32>, %i: tensor<3xi64>, %s: f64) {
  // CHECK: aten.call "t"(%[[X]]) backward : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
  %t = aten.call "t"(%x) backward : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
  // CHECK: aten.call "add.Tensor"(%[[X]], %[[X]]) backward accumulates :
  %sum = aten.call "add.Tensor"(%x, %x) backward accumulates : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: aten.call "mm"(%[[X]], %[[T:.*]]) measured(2.540000e-06) :
  %product = aten.call "mm"(%x, %t) measured(2.54e-6) : (tensor<4x8xf32>, tensor<8x4xf32, #aten.strides<[1, 8]>>) -> tensor<4x4xf32>
  // CHECK: %{{.*}}:2 = aten.call "split.Tensor"(%[[X]]) {dim = 1 : i64, split_size = 4 : i64}
  %p:2 = aten.call "split.Tensor"(%x) {split_size = 4, dim = 1} : (tensor<4x8xf32>) -> (tensor<4x4xf32, #aten.strides<[8, 1]>>, tensor<4x4xf32, #aten.strides<[8, 1]>>)
  // CHECK: aten.call "cat"([%[[X]], %[[X]]]) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  %c = aten.call "cat"([%x, %x]) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<8x8xf32>
  // CHECK: aten.call "index.Tensor"(%[[X]], [none, %[[I]]]) : (tensor<4x8xf32>, tensor<3xi64>)
  %o = aten.call "index.Tensor"(%x, [none, %i]) : (tensor<4x8xf32>, tensor<3xi64>) -> tensor<4x3xf32>
  // CHECK: aten.call "native_layer_norm"(%[[X]], none, none) {eps = 1.000000e-05 : f64, normalized_shape = array<i64: 8>}
  // CHECK-SAME: -> (tensor<4x8xf32>, tensor<4x1xf32>, none)
  %n:3 = aten.call "native_layer_norm"(%x, none, none) {normalized_shape = array<i64: 8>, eps = 1.0e-05} : (tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x1xf32>, none)
  // CHECK: aten.call "add.Tensor"(%[[X]], %[[X]], %[[S]]) : (tensor<4x8xf32>, tensor<4x8xf32>, f64)
  %a = aten.call "add.Tensor"(%x, %x, %s) : (tensor<4x8xf32>, tensor<4x8xf32>, f64) -> tensor<4x8xf32>
  // CHECK: aten.call "_to_copy"(%[[X]]) {dtype = ui8}
  %u = aten.call "_to_copy"(%x) {dtype = ui8} : (tensor<4x8xf32>) -> tensor<4x8xui8>
  // CHECK: aten.call "full"() {dtype = f32, fill_value = 1.000000e+00 : f64, size = array<i64>} : () -> tensor<f32>
  %f = aten.call "full"() {size = array<i64>, fill_value = 1.0, dtype = f32} : () -> tensor<f32>
  // CHECK: aten.call "bernoulli.p"(%[[X]]) {generator = #aten.generator<3>, p = 5.000000e-01 : f64}
  %r = aten.call "bernoulli.p"(%x) {p = 0.5, generator = #aten.generator<3>} : (tensor<4x8xf32>) -> tensor<4x8xf32>
  // CHECK: aten.call "sum.dim_IntList"(%[[X]]) {dim} :
  %d = aten.call "sum.dim_IntList"(%x) {dim} : (tensor<4x8xf32>) -> tensor<f32>
  // CHECK: aten.call "prims::iota"() {dtype = i64, length = 4 : i64,
  %j = aten.call "prims::iota"() {length = 4, start = 0, step = 1, dtype = i64, requires_grad = false} : () -> tensor<4xi64>
  return
}

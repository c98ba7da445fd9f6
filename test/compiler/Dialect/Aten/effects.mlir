// Tests that pure calls are merged and dropped, and that random ones and those
// that touch memory written in place are not.
// RUN: fsdp-opt %s --cse | FileCheck %s

// CHECK-LABEL: func.func @pure
func.func @pure(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-NEXT: %[[R:.*]] = aten.call "relu"
  // CHECK-NEXT: return %[[R]], %[[R]]
  %0 = aten.call "relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.call "relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.call "neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @random
func.func @random(%x: tensor<4xf32>) {
  // CHECK-COUNT-2: aten.call "bernoulli.p"
  %0 = aten.call "bernoulli.p"(%x) {p = 0.5, generator = #aten.generator<0>} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.call "bernoulli.p"(%x) {p = 0.5, generator = #aten.generator<0>} : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// CHECK-LABEL: func.func @attention_without_dropout
func.func @attention_without_dropout(%q: tensor<1x1x4x4xf32>) {
  // CHECK-NEXT: return
  %0:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q) : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4xf32>)
  return
}

// CHECK-LABEL: func.func @in_place
func.func @in_place() -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK-COUNT-2: aten.call "empty.memory_format"
  // CHECK-COUNT-2: aten.call "fill_.Scalar"
  %0 = aten.call "empty.memory_format"() {size = array<i64: 4>} : () -> tensor<4xf32>
  %1 = aten.call "empty.memory_format"() {size = array<i64: 4>} : () -> tensor<4xf32>
  %2 = aten.call "fill_.Scalar"(%0) {value = 1} : (tensor<4xf32>) -> tensor<4xf32>
  %3 = aten.call "fill_.Scalar"(%1) {value = 2} : (tensor<4xf32>) -> tensor<4xf32>
  return %2, %3 : tensor<4xf32>, tensor<4xf32>
}

// CHECK-LABEL: func.func @read_before_and_after
func.func @read_before_and_after(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  // CHECK: "neg"
  // CHECK: "zero_"
  // CHECK: "neg"
  %0 = aten.call "neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = aten.call "zero_"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = aten.call "neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %2 : tensor<4xf32>, tensor<4xf32>
}

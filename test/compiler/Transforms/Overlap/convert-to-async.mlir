// Tests that a collective becomes a start and a wait: right behind it, or where a sum of the step itself
// is read.
// RUN: fsdp-opt %s --fsdp-convert-to-async | FileCheck %s
// RUN: fsdp-opt %s --fsdp-convert-to-async -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CHECK-LABEL: func.func @step
func.func @step(%a: tensor<64xui8>, %g: tensor<2x16xf32>, %n: tensor<f64>) -> (tensor<128xui8>, tensor<16xf32>, tensor<f64>) {
  // CHECK: %[[F:.*]] = fsdp.all_gather_start %{{.*}} {region = #fsdp<region forward>, unit = "u"} : tensor<64xui8> -> <tensor<128xui8>>
  // CHECK-NEXT: %[[A:.*]] = fsdp.wait %[[F]]
  %0 = fsdp.all_gather %a {unit = "u", region = #fsdp<region forward>} : tensor<64xui8> -> tensor<128xui8>
  // CHECK-NEXT: %[[H:.*]] = fsdp.reduce_scatter_start %{{.*}} {unit = "u"} : tensor<2x16xf32> -> <tensor<16xf32>>
  // CHECK-NEXT: %[[R:.*]] = fsdp.wait %[[H]]
  %1 = fsdp.reduce_scatter %g {unit = "u"} : tensor<2x16xf32> -> tensor<16xf32>
  // CHECK-NEXT: %[[M:.*]] = fsdp.all_reduce_start max norm %{{.*}} : <tensor<f64>>
  // CHECK-NEXT: %[[N:.*]] = fsdp.wait %[[M]]
  %2 = fsdp.all_reduce max norm %n : tensor<f64>
  // CHECK-NEXT: return %[[A]], %[[R]], %[[N]]
  return %0, %1, %2 : tensor<128xui8>, tensor<16xf32>, tensor<f64>
}

// What the step itself adds up is in flight until it is read.
// CHECK-LABEL: func.func @sums
func.func @sums(%a: tensor<4xf32>) -> tensor<4xf32> {
  // CHECK: %[[F:.*]] = fsdp.all_reduce_start sum step
  %0 = fsdp.all_reduce sum step %a : tensor<4xf32>
  // CHECK-NEXT: %[[B:.*]] = aten.call "neg"
  %1 = aten.call "neg"(%a) : (tensor<4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %[[S:.*]] = fsdp.wait %[[F]]
  // CHECK-NEXT: aten.call "add.Tensor"(%[[B]], %[[S]])
  %2 = aten.call "add.Tensor"(%1, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// REMARK: remark: {{.*}}they start and are waited for", started=3

// Tests that the report of a program for GPUs says which calls a CUDA graph cannot
// hold: those whose kernels read something on the host.
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda --fsdp-report -o /dev/null | FileCheck %s
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda --fsdp-report="format=json" -o /dev/null | FileCheck %s --check-prefix=JSON
// RUN: fsdp-opt %s --fsdp-report -o /dev/null | FileCheck %s --check-prefix=CPU

// CPU-NOT: CUDA graph

// CHECK: program @step
// CHECK: not in a CUDA graph: aten::index in blocks.0 reads how many elements its result has
// CHECK-NEXT: not in a CUDA graph: aten::index_put in head reads how many elements its result has
// CHECK-NEXT: not in a CUDA graph: aten::index_put in tail reads how many elements its result has
// CHECK-NEXT: not in a CUDA graph: aten::histc in counts reads the smallest and the largest element
// CHECK-NEXT: not in a CUDA graph: aten::_grouped_mm in experts reads where groups end
// CHECK-NOT: CUDA graph

// JSON: "host_reads": [
// JSON-NEXT: "aten::index in blocks.0 reads how many elements its result has",

func.func @step(%x: tensor<4xf32>, %m: tensor<4xi1>, %i: tensor<2xi64>, %v: tensor<2xf32>, %one: tensor<f32>, %ends: tensor<2xi32>,
                %rows: tensor<8x16xf32>, %experts: tensor<2x16x8xf32>, %rows16: tensor<8x16xbf16>, %experts16: tensor<2x16x8xbf16>) -> tensor<2xf32> {
  // Indices that are numbers are read by the kernel alone.
  %a = aten.call "index.Tensor"(%x, [%i]) : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32> loc("blocks.0")
  %b = aten.call "index.Tensor"(%x, [%m]) : (tensor<4xf32>, tensor<4xi1>) -> tensor<2xf32> loc("blocks.0")
  // One element for all that a mask shows is filled in, by its value.
  %c = aten.call "index_put"(%x, [%m], %one) : (tensor<4xf32>, tensor<4xi1>, tensor<f32>) -> tensor<4xf32> loc("head")
  %d = aten.call "index_put"(%c, [%m], %v) : (tensor<4xf32>, tensor<4xi1>, tensor<2xf32>) -> tensor<4xf32> loc("tail")
  // Counts in a range that is given, and products of groups in bf16, are the GPU's work alone.
  %e = aten.call "histc"(%x) {bins = 4 : i64} : (tensor<4xf32>) -> tensor<4xf32> loc("counts")
  %f = aten.call "histc"(%x) {bins = 4 : i64, max = 3 : i64} : (tensor<4xf32>) -> tensor<4xf32> loc("counts")
  %g = aten.call "_grouped_mm"(%rows, %experts, %ends, none) : (tensor<8x16xf32>, tensor<2x16x8xf32>, tensor<2xi32>) -> tensor<8x8xf32> loc("experts")
  %h = aten.call "_grouped_mm"(%rows16, %experts16, %ends, none) : (tensor<8x16xbf16>, tensor<2x16x8xbf16>, tensor<2xi32>) -> tensor<8x8xbf16> loc("experts")
  return %b : tensor<2xf32>
}

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
// CHECK-NOT: CUDA graph

// JSON: "host_reads": [
// JSON-NEXT: "aten::index in blocks.0 reads how many elements its result has",

func.func @step(%x: tensor<4xf32>, %m: tensor<4xi1>, %i: tensor<2xi64>, %v: tensor<2xf32>, %one: tensor<f32>) -> tensor<2xf32> {
  // Indices that are numbers are read by the kernel alone.
  %a = aten.call "index.Tensor"(%x, [%i]) : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32> loc("blocks.0")
  %b = aten.call "index.Tensor"(%x, [%m]) : (tensor<4xf32>, tensor<4xi1>) -> tensor<2xf32> loc("blocks.0")
  // One element for all that a mask shows is filled in, by its value.
  %c = aten.call "index_put"(%x, [%m], %one) : (tensor<4xf32>, tensor<4xi1>, tensor<f32>) -> tensor<4xf32> loc("head")
  %d = aten.call "index_put"(%c, [%m], %v) : (tensor<4xf32>, tensor<4xi1>, tensor<2xf32>) -> tensor<4xf32> loc("tail")
  return %b : tensor<2xf32>
}

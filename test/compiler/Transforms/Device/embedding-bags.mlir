// Tests that bags of embeddings have the sizes on a GPU that its kernel gives.
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda | FileCheck %s

// Of bags of embeddings a GPU keeps each index's bag, and sizes of as many bags
// as there are offsets; the largest elements' places in mode 2 alone.
// CHECK-LABEL: func.func @bags
// CHECK: aten.call "_embedding_bag"{{.*}} -> (tensor<2x6xf32>, tensor<7xi64>, tensor<3xi64>, tensor<0xi64>)
// CHECK: aten.call "_embedding_bag"{{.*}} -> (tensor<2x6xf32>, tensor<7xi64>, tensor<3xi64>, tensor<2x6xi64>)
func.func @bags(%w: tensor<10x6xf32>, %i: tensor<7xi64>, %o: tensor<3xi64>) -> (tensor<2x6xf32>, tensor<2x6xf32>) {
  %sum:4 = aten.call "_embedding_bag"(%w, %i, %o, none) {include_last_offset = true} : (tensor<10x6xf32>, tensor<7xi64>, tensor<3xi64>) -> (tensor<2x6xf32>, tensor<0xi64>, tensor<2xi64>, tensor<2xi64>)
  %max:4 = aten.call "_embedding_bag"(%w, %i, %o, none) {include_last_offset = true, mode = 2 : i64} : (tensor<10x6xf32>, tensor<7xi64>, tensor<3xi64>) -> (tensor<2x6xf32>, tensor<7xi64>, tensor<2xi64>, tensor<2x6xi64>)
  return %sum#0, %max#0 : tensor<2x6xf32>, tensor<2x6xf32>
}

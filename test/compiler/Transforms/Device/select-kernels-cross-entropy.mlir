// Tests that on GPUs, and of many classes on CPUs with kernels=fast, cross-entropy
// is one kernel, and one of its backward, which read the logits as the model gave
// them.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-choose-kernels="kernels=fast kernel-table=%S/../Inputs/kernels.toml cluster=h100x8" | FileCheck %s --check-prefix=FAST
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda --remarks-filter=fsdp-select-kernels -o %t 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels | FileCheck %s --check-prefix=CPU

// REMARK: remark: [Passed] cross-entropy | Category:fsdp-select-kernels | Function=narrow | Remark="one kernel, which keeps no probability", logits=bf16

// CPU-NOT: cross_entropy

// FAST-NOT: cross_entropy
// FAST: func.func @many_classes
// FAST-NEXT: aten.call "fsdp_mlir::cross_entropy"

// Casts on both sides go.
// CHECK-LABEL: func.func @narrow
// CHECK-SAME: %[[X:.*]]: tensor<8x16xbf16>, %[[T:.*]]: tensor<8xi64>, %[[G:.*]]: tensor<f32>
// CHECK-NEXT: %[[L:.*]]:3 = aten.call "fsdp_mlir::cross_entropy"(%[[X]], %[[T]]) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x16xbf16>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>, tensor<8xf32>)
// CHECK-NEXT: %[[D:.*]] = aten.call "fsdp_mlir::cross_entropy_backward"(%[[G]], %[[X]], %[[T]], %[[L]]#1, %[[L]]#2) backward {ignore_index = -100 : i64, reduction = 1 : i64} : {{.*}} -> tensor<8x16xbf16>
// CHECK-NEXT: return %[[L]]#0, %[[D]]
func.func @narrow(%x: tensor<8x16xbf16>, %t: tensor<8xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<8x16xbf16>) {
  %w = aten.call "_to_copy"(%x) {dtype = f32} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
  %s = aten.call "_log_softmax"(%w) {dim = 1 : i64, half_to_float = false} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %k = aten.call "detach"(%s) : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  %b = aten.call "nll_loss_backward"(%g, %s, %t, none, %l#1) backward {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
  %d = aten.call "_log_softmax_backward_data"(%b, %k) backward {dim = 1 : i64, input_dtype = f32} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %n = aten.call "_to_copy"(%d) backward {dtype = bf16, layout = 0 : i64} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  return %l#0, %n : tensor<f32>, tensor<8x16xbf16>
}

// So do views between, and the new call sees the rows.
// CHECK-LABEL: func.func @viewed
// CHECK-SAME: %[[X:.*]]: tensor<2x4x16xbf16>,
// CHECK-NEXT: %[[V:.*]] = aten.call "view"(%[[X]]) {size = array<i64: 8, 16>} : (tensor<2x4x16xbf16>) -> tensor<8x16xbf16>
// CHECK-NEXT: aten.call "fsdp_mlir::cross_entropy"(%[[V]],
// CHECK-NEXT: %[[D:.*]] = aten.call "fsdp_mlir::cross_entropy_backward"({{.*}}, %[[V]],
// CHECK-NEXT: aten.call "view"(%[[D]]) backward {size = array<i64: 2, 4, 16>} : (tensor<8x16xbf16>) -> tensor<2x4x16xbf16>
// CHECK-NEXT: return
func.func @viewed(%x: tensor<2x4x16xbf16>, %t: tensor<8xi64>, %g: tensor<f32>) -> (tensor<f32>, tensor<2x4x16xbf16>) {
  %w = aten.call "_to_copy"(%x) {dtype = f32} : (tensor<2x4x16xbf16>) -> tensor<2x4x16xf32>
  %v = aten.call "view"(%w) {size = array<i64: 8, 16>} : (tensor<2x4x16xf32>) -> tensor<8x16xf32>
  %s = aten.call "_log_softmax"(%v) {dim = -1 : i64, half_to_float = false} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = 0 : i64, reduction = 2 : i64} : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  %b = aten.call "nll_loss_backward"(%g, %s, %t, none, %l#1) backward {ignore_index = 0 : i64, reduction = 2 : i64} : (tensor<f32>, tensor<8x16xf32>, tensor<8xi64>, tensor<f32>) -> tensor<8x16xf32>
  %d = aten.call "_log_softmax_backward_data"(%b, %s) backward {dim = -1 : i64, input_dtype = f32} : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>
  %u = aten.call "view"(%d) backward {size = array<i64: 2, 4, 16>} : (tensor<8x16xf32>) -> tensor<2x4x16xf32>
  %n = aten.call "_to_copy"(%u) backward {dtype = bf16} : (tensor<2x4x16xf32>) -> tensor<2x4x16xbf16>
  return %l#0, %n : tensor<f32>, tensor<2x4x16xbf16>
}

// Logits in f32 stay what they are. There is no backward in an evaluation.
// CHECK-LABEL: func.func @evaluated
// CHECK-NEXT: aten.call "fsdp_mlir::cross_entropy"({{.*}}) {{.*}} : (tensor<8x16xf32>,
// CHECK-NEXT: return
func.func @evaluated(%x: tensor<8x16xf32>, %t: tensor<8xi64>) -> tensor<f32> {
  %s = aten.call "_log_softmax"(%x) {dim = 1 : i64, half_to_float = false} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return %l#0 : tensor<f32>
}

// Where someone else reads the logarithms, they are computed.
// CHECK-LABEL: func.func @read
// CHECK-NEXT: "_log_softmax"
func.func @read(%x: tensor<8x16xf32>, %t: tensor<8xi64>) -> (tensor<f32>, tensor<8x16xf32>) {
  %s = aten.call "_log_softmax"(%x) {dim = 1 : i64, half_to_float = false} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return %l#0, %s : tensor<f32>, tensor<8x16xf32>
}

// Weights of classes, and losses of each row, are PyTorch's own.
// CHECK-LABEL: func.func @weighted
// CHECK-NEXT: "_log_softmax"
func.func @weighted(%x: tensor<8x16xf32>, %t: tensor<8xi64>, %w: tensor<16xf32>) -> tensor<f32> {
  %s = aten.call "_log_softmax"(%x) {dim = 1 : i64, half_to_float = false} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t, %w) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x16xf32>, tensor<8xi64>, tensor<16xf32>) -> (tensor<f32>, tensor<f32>)
  return %l#0 : tensor<f32>
}

// CHECK-LABEL: func.func @each_row
// CHECK-NEXT: "_log_softmax"
func.func @each_row(%x: tensor<8x16xf32>, %t: tensor<8xi64>) -> tensor<8xf32> {
  %s = aten.call "_log_softmax"(%x) {dim = 1 : i64, half_to_float = false} : (tensor<8x16xf32>) -> tensor<8x16xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = -100 : i64, reduction = 0 : i64} : (tensor<8x16xf32>, tensor<8xi64>) -> (tensor<8xf32>, tensor<f32>)
  return %l#0 : tensor<8xf32>
}

// CHECK-LABEL: func.func @along_the_rows
// CHECK-NEXT: "_log_softmax"
func.func @along_the_rows(%x: tensor<8x8xf32>, %t: tensor<8xi64>) -> tensor<f32> {
  %s = aten.call "_log_softmax"(%x) {dim = 0 : i64, half_to_float = false} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x8xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return %l#0 : tensor<f32>
}

// CHECK-LABEL: func.func @many_classes
// CHECK-NEXT: aten.call "fsdp_mlir::cross_entropy"
func.func @many_classes(%x: tensor<8x512xf32>, %t: tensor<8xi64>) -> tensor<f32> {
  %s = aten.call "_log_softmax"(%x) {dim = 1 : i64, half_to_float = false} : (tensor<8x512xf32>) -> tensor<8x512xf32>
  %l:2 = aten.call "nll_loss_forward"(%s, %t) {ignore_index = -100 : i64, reduction = 1 : i64} : (tensor<8x512xf32>, tensor<8xi64>) -> (tensor<f32>, tensor<f32>)
  return %l#0 : tensor<f32>
}

// Tests that attention, captured with the CPU's kernel, becomes the first of
// PyTorch's kernels for GPUs that computes it, with its own backward; that
// results have the types that a GPU gives; and that a plan for CPUs stays as it
// is.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels | FileCheck %s --check-prefix=CPU
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda | FileCheck %s
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels="device=cuda attention=cudnn,efficient" | FileCheck %s --check-prefix=CUDNN
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// CPU-NOT: fsdp.device
// CPU-COUNT-7: "_scaled_dot_product_flash_attention_for_cpu
// CPU-NOT: _scaled_dot_product

// CHECK: module attributes {fsdp.device = "cuda"}
// CUDNN: module attributes {fsdp.device = "cuda"}

// Half precision and no mask: flash. Its generator's state is of no use without
// dropout; queries and keys may be of different numbers of heads.
// REMARK: remark: [Passed] attention{{.*}}Category:fsdp-select-kernels{{.*}}flash
// CHECK-LABEL: func.func @step
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x16x8xbf16{{.*}}>, %[[K:.*]]: tensor<2x2x16x8xbf16{{.*}}>, %[[V:.*]]: tensor<2x2x16x8xbf16{{.*}}>, %[[G:.*]]: tensor
// CHECK-NEXT: %[[F:.*]]:7 = aten.call "_scaled_dot_product_flash_attention"(%[[Q]], %[[K]], %[[V]]) {is_causal = true}
// CHECK-SAME: -> (tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x4x16xf32>, none, none, none, none, none)
// CHECK-NEXT: %[[B:.*]]:3 = aten.call "_scaled_dot_product_flash_attention_backward"(%[[G]], %[[Q]], %[[K]], %[[V]], %[[F]]#0, %[[F]]#1, none, none, none, none)
// CHECK-SAME: backward {dropout_p = 0.000000e+00 : f64, is_causal = true, max_k = 16 : i64, max_q = 16 : i64
// CHECK-NEXT: return %[[F]]#0, %[[B]]#1
// CUDNN-LABEL: func.func @step
// CUDNN-SAME: %[[Q:.*]]: tensor<2x4x16x8xbf16{{.*}}>, %[[K:.*]]: tensor<2x2x16x8xbf16{{.*}}>, %[[V:.*]]: tensor<2x2x16x8xbf16{{.*}}>, %[[G:.*]]: tensor
// CUDNN-NEXT: %[[F:.*]]:7 = aten.call "_scaled_dot_product_cudnn_attention"(%[[Q]], %[[K]], %[[V]], none) {compute_log_sumexp = true, is_causal = true}
// CUDNN-SAME: tensor<2x4x16x1xf32>, none, none, tensor<i64>, tensor<i64>, none)
// CUDNN-NEXT: aten.call "_scaled_dot_product_cudnn_attention_backward"(%[[G]], %[[Q]], %[[K]], %[[V]], %[[F]]#0, %[[F]]#1, %[[F]]#4, %[[F]]#5, none, none, none)
func.func @step(%q: tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, %k: tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>, %v: tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>, %g: tensor<2x4x16x8xbf16>)
    -> (tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>) {
  %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %k, %v) {is_causal = true} : (tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>) -> (tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x4x16xf32, #aten.strides<[64, 1, 4]>>)
  %b:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward"(%g, %q, %k, %v, %a#0, %a#1) backward {dropout_p = 0.0 : f64, is_causal = true} : (tensor<2x4x16x8xbf16>, tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>, tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x4x16xf32, #aten.strides<[64, 1, 4]>>) -> (tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>)
  return %a#0, %b#1 : tensor<2x4x16x8xbf16, #aten.strides<[512, 8, 32, 1]>>, tensor<2x2x16x8xbf16, #aten.strides<[256, 8, 16, 1]>>
}

// Single precision, a mask and grouped heads: efficient. Keys and values are
// repeated, and the gradients of the repetitions summed; the mask is cast, padded
// to rows of 8 and expanded.
// REMARK: remark: [Passed] attention{{.*}}efficient; flash computes in f16 or bf16, not f32
// CHECK-LABEL: func.func @masked
// CHECK-SAME: %[[Q:.*]]: tensor<2x4x6x8xf32>, %[[K:.*]]: tensor<2x2x5x8xf32>, %[[V:.*]]: tensor<2x2x5x8xf32>, %[[M:.*]]: tensor<6x5xf64>, %[[G:.*]]: tensor
// CHECK-NEXT: %[[KR:.*]] = aten.call "repeat_interleave.self_int"(%[[K]]) {dim = 1 : i64, repeats = 2 : i64} : (tensor<2x2x5x8xf32>) -> tensor<2x4x5x8xf32>
// CHECK-NEXT: %[[VR:.*]] = aten.call "repeat_interleave.self_int"(%[[V]])
// CHECK-NEXT: %[[C:.*]] = aten.call "_to_copy"(%[[M]]) {dtype = f32} : (tensor<6x5xf64>) -> tensor<6x5xf32>
// CHECK-NEXT: %[[P:.*]] = aten.call "constant_pad_nd"(%[[C]]) {pad = array<i64: 0, 3>} : (tensor<6x5xf32>) -> tensor<6x8xf32>
// CHECK-NEXT: %[[S:.*]] = aten.call "slice.Tensor"(%[[P]]) {dim = 1 : i64, end = 5 : i64, start = 0 : i64} : (tensor<6x8xf32>) -> tensor<6x5xf32, #aten.strides<[8, 1]>>
// CHECK-NEXT: %[[E:.*]] = aten.call "expand"(%[[S]]) {size = array<i64: 2, 4, 6, 5>} : {{.*}} -> tensor<2x4x6x5xf32, #aten.strides<[0, 0, 8, 1]>>
// CHECK-NEXT: %[[F:.*]]:4 = aten.call "_scaled_dot_product_efficient_attention"(%[[Q]], %[[KR]], %[[VR]], %[[E]]) must_save {compute_log_sumexp = true, scale = 5.000000e-01 : f64}
// CHECK-SAME: -> (tensor<2x4x6x8xf32>, tensor<2x4x32xf32>, none, none)
// CHECK-NEXT: %[[B:.*]]:4 = aten.call "_scaled_dot_product_efficient_attention_backward"(%[[G]], %[[Q]], %[[KR]], %[[VR]], %[[E]], %[[F]]#0, %[[F]]#1, none, none)
// CHECK-SAME: grad_input_mask = array<i1: true, true, true, false>
// CHECK-SAME: -> (tensor<2x4x6x8xf32, #aten.strides<[192, 8, 32, 1]>>, tensor<2x4x5x8xf32, #aten.strides<[160, 8, 32, 1]>>, tensor<2x4x5x8xf32, #aten.strides<[160, 8, 32, 1]>>, none)
// CHECK-NEXT: %[[H:.*]] = aten.call "view"(%[[B]]#1) backward {size = array<i64: 2, 2, 2, 5, 8>} : {{.*}} -> tensor<2x2x2x5x8xf32, #aten.strides<[160, 16, 8, 32, 1]>>
// CHECK-NEXT: %[[GK:.*]] = aten.call "sum.dim_IntList"(%[[H]]) backward {dim = array<i64: 2>} : {{.*}} -> tensor<2x2x5x8xf32, #aten.strides<[80, 8, 16, 1]>>
// CHECK: return %[[F]]#0, %[[GK]]
func.func @masked(%q: tensor<2x4x6x8xf32>, %k: tensor<2x2x5x8xf32>, %v: tensor<2x2x5x8xf32>, %m: tensor<6x5xf64>, %g: tensor<2x4x6x8xf32>)
    -> (tensor<2x4x6x8xf32>, tensor<2x2x5x8xf32, #aten.strides<[80, 8, 16, 1]>>) {
  %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %k, %v, %m) must_save {scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<6x5xf64>) -> (tensor<2x4x6x8xf32>, tensor<2x4x6xf32, #aten.strides<[24, 1, 4]>>)
  %b:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward"(%g, %q, %k, %v, %a#0, %a#1, %m) backward {dropout_p = 0.0 : f64, is_causal = false, scale = 0.5 : f64} : (tensor<2x4x6x8xf32>, tensor<2x4x6x8xf32>, tensor<2x2x5x8xf32>, tensor<2x2x5x8xf32>, tensor<2x4x6x8xf32>, tensor<2x4x6xf32, #aten.strides<[24, 1, 4]>>, tensor<6x5xf64>) -> (tensor<2x4x6x8xf32, #aten.strides<[192, 8, 32, 1]>>, tensor<2x2x5x8xf32, #aten.strides<[80, 8, 16, 1]>>, tensor<2x2x5x8xf32, #aten.strides<[80, 8, 16, 1]>>)
  return %a#0, %b#1 : tensor<2x4x6x8xf32>, tensor<2x2x5x8xf32, #aten.strides<[80, 8, 16, 1]>>
}

// Rows of 12 elements are padded to 16; the scale stays 1 / sqrt(12).
// CHECK-LABEL: func.func @padded
// CHECK-SAME: %[[Q:.*]]: tensor<1x2x8x12xf16>, %[[G:.*]]: tensor
// CHECK-COUNT-3: aten.call "constant_pad_nd"(%[[Q]]) {pad = array<i64: 0, 4>} : (tensor<1x2x8x12xf16>) -> tensor<1x2x8x16xf16>
// CHECK-NEXT: %[[F:.*]]:7 = aten.call "_scaled_dot_product_flash_attention"({{.*}}) {scale = 0.28867513459481292 : f64}
// CHECK-NEXT: %[[O:.*]] = aten.call "constant_pad_nd"(%[[F]]#0) {pad = array<i64: 0, -4>} : {{.*}} -> tensor<1x2x8x12xf16>
// CHECK-NEXT: %[[H:.*]] = aten.call "constant_pad_nd"(%[[G]]) backward {pad = array<i64: 0, 4>}
// CHECK-NEXT: %[[B:.*]]:3 = aten.call "_scaled_dot_product_flash_attention_backward"(%[[H]], {{.*}}, %[[F]]#0, %[[F]]#1, none, none, none, none)
// CHECK-NEXT: %[[GQ:.*]] = aten.call "constant_pad_nd"(%[[B]]#0) backward {pad = array<i64: 0, -4>} : {{.*}} -> tensor<1x2x8x12xf16, #aten.strides<[192, 12, 24, 1]>>
// CHECK: return %[[O]], %[[GQ]]
func.func @padded(%q: tensor<1x2x8x12xf16>, %g: tensor<1x2x8x12xf16>) -> (tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16, #aten.strides<[192, 12, 24, 1]>>) {
  %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q) : (tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16>) -> (tensor<1x2x8x12xf16>, tensor<1x2x8xf32, #aten.strides<[16, 1, 2]>>)
  %b:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward"(%g, %q, %q, %q, %a#0, %a#1) backward {dropout_p = 0.0 : f64, is_causal = false} : (tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16>, tensor<1x2x8xf32, #aten.strides<[16, 1, 2]>>) -> (tensor<1x2x8x12xf16, #aten.strides<[192, 12, 24, 1]>>, tensor<1x2x8x12xf16, #aten.strides<[192, 12, 24, 1]>>, tensor<1x2x8x12xf16, #aten.strides<[192, 12, 24, 1]>>)
  return %a#0, %b#0 : tensor<1x2x8x12xf16>, tensor<1x2x8x12xf16, #aten.strides<[192, 12, 24, 1]>>
}

// Without backward nothing is kept for it. A mask whose rows are aligned is
// used as it is.
// CHECK-LABEL: func.func @eval
// CHECK-SAME: %[[Q:.*]]: tensor<1x2x8x16xf16>, %[[M:.*]]: tensor<1x1x1x8xf16>
// CHECK-NEXT: %[[E:.*]] = aten.call "expand"(%[[M]]) {size = array<i64: 1, 2, 8, 8>} : {{.*}} -> tensor<1x2x8x8xf16, #aten.strides<[8, 0, 0, 1]>>
// CHECK-NEXT: aten.call "_scaled_dot_product_efficient_attention"(%[[Q]], %[[Q]], %[[Q]], %[[E]]) {compute_log_sumexp = false}
// CHECK-SAME: -> (tensor<1x2x8x16xf16>, tensor<1x2x0xf32>, none, none)
func.func @eval(%q: tensor<1x2x8x16xf16>, %m: tensor<1x1x1x8xf16>) -> tensor<1x2x8x16xf16> {
  %a:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q, %m) : (tensor<1x2x8x16xf16>, tensor<1x2x8x16xf16>, tensor<1x2x8x16xf16>, tensor<1x1x1x8xf16>) -> (tensor<1x2x8x16xf16>, tensor<1x2x8xf32, #aten.strides<[16, 1, 2]>>)
  return %a#0 : tensor<1x2x8x16xf16>
}

// What a normalisation leaves for its backward is of the input's type on a CPU,
// and f32 on a GPU.
// CHECK-LABEL: func.func @normalized
// CHECK: %[[N:.*]]:3 = aten.call "native_layer_norm"{{.*}} -> (tensor<2x8xbf16>, tensor<2x1xf32>, tensor<2x1xf32>)
// CHECK-NEXT: %[[D:.*]] = aten.call "detach"(%[[N]]#1) : (tensor<2x1xf32>) -> tensor<2x1xf32>
// CHECK-NEXT: aten.call "native_layer_norm_backward"(%{{.*}}, %{{.*}}, %[[D]], %[[N]]#2, %{{.*}}) {{.*}} : (tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<8xbf16>) -> (tensor<2x8xbf16>, tensor<8xbf16>, none)
func.func @normalized(%x: tensor<2x8xbf16>, %w: tensor<8xbf16>) -> tensor<2x8xbf16> {
  %y:3 = aten.call "native_layer_norm"(%x, %w) {eps = 1.0e-5 : f64, normalized_shape = array<i64: 8>} : (tensor<2x8xbf16>, tensor<8xbf16>) -> (tensor<2x8xbf16>, tensor<2x1xbf16>, tensor<2x1xbf16>)
  %m = aten.call "detach"(%y#1) : (tensor<2x1xbf16>) -> tensor<2x1xbf16>
  %g:3 = aten.call "native_layer_norm_backward"(%y#0, %x, %m, %y#2, %w) backward {normalized_shape = array<i64: 8>, output_mask = array<i1: true, true, false>} : (tensor<2x8xbf16>, tensor<2x8xbf16>, tensor<2x1xbf16>, tensor<2x1xbf16>, tensor<8xbf16>) -> (tensor<2x8xbf16>, tensor<8xbf16>, none)
  return %g#0 : tensor<2x8xbf16>
}

// With running statistics a CPU leaves none, and a GPU those that it used; of
// log(sigmoid(x)) only a CPU keeps what its backward reads.
// CHECK-LABEL: func.func @kept
// CHECK: aten.call "native_batch_norm"{{.*}} -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: aten.call "_native_batch_norm_legit_no_training"{{.*}} -> (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>)
// CHECK-NEXT: %[[S:.*]]:2 = aten.call "log_sigmoid_forward"{{.*}} -> (tensor<4x3xf32>, tensor<0xf32>)
// CHECK-NEXT: aten.call "log_sigmoid_backward"(%{{.*}}, %{{.*}}, %[[S]]#1)
func.func @kept(%x: tensor<4x3xf32>, %m: tensor<3xf32>) -> tensor<4x3xf32> {
  %y:3 = aten.call "native_batch_norm"(%x, none, none, %m, %m) {eps = 10.0 : f64, momentum = 0.1 : f64, training = false} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<0xf32>, tensor<0xf32>)
  %e:3 = aten.call "_native_batch_norm_legit_no_training"(%y#0, none, none, %m, %m) {eps = 10.0 : f64, momentum = 0.1 : f64} : (tensor<4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<4x3xf32>, tensor<0xf32>, tensor<0xf32>)
  %s:2 = aten.call "log_sigmoid_forward"(%e#0) : (tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<4x3xf32>)
  %g = aten.call "log_sigmoid_backward"(%s#0, %e#0, %s#1) backward : (tensor<4x3xf32>, tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %g : tensor<4x3xf32>
}

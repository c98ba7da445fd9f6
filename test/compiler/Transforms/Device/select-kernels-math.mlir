// Tests that attention which was captured as matrix products becomes a kernel
// where one computes it: with dropout, drawn from the site of the products' own;
// with a mask that has a gradient. Where none does, the products stay.
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels=device=cuda | FileCheck %s
// RUN: fsdp-opt %s --fsdp-select-kernels=device=cuda -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: fsdp-opt %s --mlir-print-debuginfo=false --fsdp-select-kernels="device=cuda attention=cudnn" | FileCheck %s --check-prefix=STAYS

// STAYS-COUNT-2: _safe_softmax
// STAYS-NOT: attention

// A mask of one for all batches and heads: its gradient is the sum of theirs.
// REMARK: [Passed] attention{{.*}}Function=masked{{.*}}efficient in place of matrix products
// CHECK-LABEL: func.func @masked
// CHECK-SAME: %[[Q:[a-z0-9]+]]: {{[^,]*}}, #{{[^:]*}}, %[[K:[a-z0-9]+]]: {{.*}}, %[[M:[a-z0-9]+]]: tensor<13x13xf32>)
// CHECK-NOT: {{bmm|softmax}}
// CHECK: %[[BIAS:.*]] = aten.call "expand"
// CHECK: %[[F:.*]]:4 = aten.call "_scaled_dot_product_efficient_attention"(%[[Q]], %[[K]], %{{.*}}, %[[BIAS]]) {compute_log_sumexp = true}
// CHECK: %[[B:.*]]:4 = aten.call "_scaled_dot_product_efficient_attention_backward"({{.*}}) backward {dropout_p = 0.000000e+00 : f64, grad_input_mask = array<i1: true, true, true, true>}
// CHECK-SAME: tensor<2x4x13x13xf32>)
// CHECK-NEXT: %[[SUM:.*]] = aten.call "sum.dim_IntList"(%[[B]]#3)
// CHECK-NEXT: %[[MG:.*]] = aten.call "view"(%[[SUM]])
// CHECK-NEXT: return %{{.*}}, %[[B]]#2, %[[B]]#1, %[[B]]#0, %[[MG]]
func.func @masked(%q: tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>, %k: tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>, %v: tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>, %g: tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>, %m: tensor<13x13xf32>) -> (tensor<2x4x13x8xf32>, tensor<2x4x13x8xf32>, tensor<2x4x13x8xf32, #aten.strides<[416, 104, 1, 13]>>, tensor<2x4x13x8xf32>, tensor<13x13xf32>) {
  %0 = aten.call "mul.Scalar"(%q) {other = 0.59460355750136051 : f64} : (tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %1 = aten.call "transpose.int"(%k) {dim0 = -2 : i64, dim1 = -1 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x8x13xf32, #aten.strides<[1248, 8, 1, 96]>>
  %2 = aten.call "mul.Scalar"(%1) {other = 0.59460355750136051 : f64} : (tensor<2x4x8x13xf32, #aten.strides<[1248, 8, 1, 96]>>) -> tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>
  %3 = aten.call "expand"(%0) {size = array<i64: 2, 4, 13, 8>} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %4 = aten.call "clone"(%3) {memory_format = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32>
  %5 = aten.call "_unsafe_view"(%4) {size = array<i64: 8, 13, 8>} : (tensor<2x4x13x8xf32>) -> tensor<8x13x8xf32>
  %6 = aten.call "expand"(%2) {size = array<i64: 2, 4, 8, 13>} : (tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>) -> tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>
  %7 = aten.call "clone"(%6) {memory_format = 0 : i64} : (tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>) -> tensor<2x4x8x13xf32>
  %8 = aten.call "_unsafe_view"(%7) {size = array<i64: 8, 8, 13>} : (tensor<2x4x8x13xf32>) -> tensor<8x8x13xf32>
  %9 = aten.call "bmm"(%5, %8) : (tensor<8x13x8xf32>, tensor<8x8x13xf32>) -> tensor<8x13x13xf32>
  %10 = aten.call "view"(%9) {size = array<i64: 2, 4, 13, 13>} : (tensor<8x13x13xf32>) -> tensor<2x4x13x13xf32>
  %11 = aten.call "add.Tensor"(%10, %m) : (tensor<2x4x13x13xf32>, tensor<13x13xf32>) -> tensor<2x4x13x13xf32>
  %12 = aten.call "_safe_softmax"(%11) {dim = -1 : i64} : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %13 = aten.call "detach"(%12) : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %14 = aten.call "expand"(%12) {size = array<i64: 2, 4, 13, 13>} : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %15 = aten.call "view"(%14) {size = array<i64: 8, 13, 13>} : (tensor<2x4x13x13xf32>) -> tensor<8x13x13xf32>
  %16 = aten.call "expand"(%v) {size = array<i64: 2, 4, 13, 8>} : (tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>
  %17 = aten.call "clone"(%16) {memory_format = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x13x8xf32>
  %18 = aten.call "_unsafe_view"(%17) {size = array<i64: 8, 13, 8>} : (tensor<2x4x13x8xf32>) -> tensor<8x13x8xf32>
  %19 = aten.call "bmm"(%15, %18) : (tensor<8x13x13xf32>, tensor<8x13x8xf32>) -> tensor<8x13x8xf32>
  %20 = aten.call "view"(%19) {size = array<i64: 2, 4, 13, 8>} : (tensor<8x13x8xf32>) -> tensor<2x4x13x8xf32>
  %21 = aten.call "clone"(%g) backward {memory_format = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32>
  %22 = aten.call "_unsafe_view"(%21) backward {size = array<i64: 8, 13, 8>} : (tensor<2x4x13x8xf32>) -> tensor<8x13x8xf32>
  %23 = aten.call "transpose.int"(%15) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x13x13xf32>) -> tensor<8x13x13xf32, #aten.strides<[169, 1, 13]>>
  %24 = aten.call "bmm"(%23, %22) backward : (tensor<8x13x13xf32, #aten.strides<[169, 1, 13]>>, tensor<8x13x8xf32>) -> tensor<8x13x8xf32>
  %25 = aten.call "transpose.int"(%18) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x13x8xf32>) -> tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>
  %26 = aten.call "bmm"(%22, %25) backward : (tensor<8x13x8xf32>, tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>) -> tensor<8x13x13xf32>
  %27 = aten.call "view"(%24) backward {size = array<i64: 2, 4, 13, 8>} : (tensor<8x13x8xf32>) -> tensor<2x4x13x8xf32>
  %28 = aten.call "view"(%26) backward {size = array<i64: 2, 4, 13, 13>} : (tensor<8x13x13xf32>) -> tensor<2x4x13x13xf32>
  %29 = aten.call "detach"(%13) backward : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %30 = aten.call "_softmax_backward_data"(%28, %29) backward {dim = -1 : i64, input_dtype = f32} : (tensor<2x4x13x13xf32>, tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %31 = aten.call "sum.dim_IntList"(%30) backward {dim = array<i64: 0, 1>, keepdim = true} : (tensor<2x4x13x13xf32>) -> tensor<1x1x13x13xf32>
  %32 = aten.call "view"(%31) backward {size = array<i64: 13, 13>} : (tensor<1x1x13x13xf32>) -> tensor<13x13xf32>
  %33 = aten.call "view"(%30) backward {size = array<i64: 8, 13, 13>} : (tensor<2x4x13x13xf32>) -> tensor<8x13x13xf32>
  %34 = aten.call "transpose.int"(%5) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x13x8xf32>) -> tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>
  %35 = aten.call "bmm"(%34, %33) backward : (tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>, tensor<8x13x13xf32>) -> tensor<8x8x13xf32>
  %36 = aten.call "transpose.int"(%8) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x8x13xf32>) -> tensor<8x13x8xf32, #aten.strides<[104, 1, 13]>>
  %37 = aten.call "bmm"(%33, %36) backward : (tensor<8x13x13xf32>, tensor<8x13x8xf32, #aten.strides<[104, 1, 13]>>) -> tensor<8x13x8xf32>
  %38 = aten.call "view"(%35) backward {size = array<i64: 2, 4, 8, 13>} : (tensor<8x8x13xf32>) -> tensor<2x4x8x13xf32>
  %39 = aten.call "view"(%37) backward {size = array<i64: 2, 4, 13, 8>} : (tensor<8x13x8xf32>) -> tensor<2x4x13x8xf32>
  %40 = aten.call "mul.Scalar"(%38) backward {other = 0.59460355750136051 : f64} : (tensor<2x4x8x13xf32>) -> tensor<2x4x8x13xf32>
  %41 = aten.call "transpose.int"(%40) backward {dim0 = -2 : i64, dim1 = -1 : i64} : (tensor<2x4x8x13xf32>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 104, 1, 13]>>
  %42 = aten.call "mul.Scalar"(%39) backward {other = 0.59460355750136051 : f64} : (tensor<2x4x13x8xf32>) -> tensor<2x4x13x8xf32>
  return %20, %27, %41, %42, %32 : tensor<2x4x13x8xf32>, tensor<2x4x13x8xf32>, tensor<2x4x13x8xf32, #aten.strides<[416, 104, 1, 13]>>, tensor<2x4x13x8xf32>, tensor<13x13xf32>
}

// In bf16, which products are computed without; is_causal as PyTorch writes it.
// REMARK: [Passed] attention{{.*}}Function=dropped{{.*}}flash in place of matrix products
// CHECK-LABEL: func.func @dropped
// CHECK-NOT: {{bmm|softmax|bernoulli|tril}}
// CHECK: %[[F:.*]]:3 = aten.call "fsdp_mlir::flash_attention"(%[[Q:.*]], %[[K:.*]], %[[V:.*]]) {dropout_p = 0.0999{{.*}} : f64, generator = #aten.generator<0>, is_causal = true}
// CHECK-SAME: -> (tensor<2x4x13x8xbf16>, tensor<2x4x13xf32>, tensor<2xi64>)
// CHECK-NEXT: %[[B:.*]]:3 = aten.call "fsdp_mlir::flash_attention_backward"(%{{.*}}, %[[Q]], %[[K]], %[[V]], %[[F]]#0, %[[F]]#1, %[[F]]#2) backward {dropout_p = 0.0999{{.*}} : f64, is_causal = true}
// CHECK-NEXT: return %[[F]]#0, %[[B]]#2, %[[B]]#1, %[[B]]#0
func.func @dropped(%q: tensor<2x4x13x8xbf16, #aten.strides<[1248, 8, 96, 1]>>, %k: tensor<2x4x13x8xbf16, #aten.strides<[1248, 8, 96, 1]>>, %v: tensor<2x4x13x8xbf16, #aten.strides<[1248, 8, 96, 1]>>, %g: tensor<2x4x13x8xbf16, #aten.strides<[416, 8, 32, 1]>>) -> (tensor<2x4x13x8xbf16>, tensor<2x4x13x8xbf16>, tensor<2x4x13x8xbf16, #aten.strides<[416, 104, 1, 13]>>, tensor<2x4x13x8xbf16>) {
  %0 = aten.call "_to_copy"(%q) {dtype = f32} : (tensor<2x4x13x8xbf16, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %1 = aten.call "_to_copy"(%k) {dtype = f32} : (tensor<2x4x13x8xbf16, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %2 = aten.call "_to_copy"(%v) {dtype = f32} : (tensor<2x4x13x8xbf16, #aten.strides<[1248, 8, 96, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %3 = aten.call "mul.Scalar"(%0) {other = 0.59460355750136051 : f64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %4 = aten.call "ones"() {dtype = i1, layout = 0 : i64, size = array<i64: 13, 13>} : () -> tensor<13x13xi1>
  %5 = aten.call "tril"(%4) : (tensor<13x13xi1>) -> tensor<13x13xi1>
  %6 = aten.call "scalar_tensor"() {dtype = f32, s = 0xFFF0000000000000 : f64} : () -> tensor<f32>
  %7 = aten.call "scalar_tensor"() {dtype = f32, layout = 0 : i64, s = 0.000000e+00 : f64} : () -> tensor<f32>
  %8 = aten.call "where.self"(%5, %7, %6) : (tensor<13x13xi1>, tensor<f32>, tensor<f32>) -> tensor<13x13xf32>
  %9 = aten.call "transpose.int"(%1) {dim0 = -2 : i64, dim1 = -1 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>
  %10 = aten.call "mul.Scalar"(%9) {other = 0.59460355750136051 : f64} : (tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>) -> tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>
  %11 = aten.call "expand"(%3) {size = array<i64: 2, 4, 13, 8>} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %12 = aten.call "clone"(%11) {memory_format = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32>
  %13 = aten.call "_unsafe_view"(%12) {size = array<i64: 8, 13, 8>} : (tensor<2x4x13x8xf32>) -> tensor<8x13x8xf32>
  %14 = aten.call "expand"(%10) {size = array<i64: 2, 4, 8, 13>} : (tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>) -> tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>
  %15 = aten.call "clone"(%14) {memory_format = 0 : i64} : (tensor<2x4x8x13xf32, #aten.strides<[416, 8, 1, 32]>>) -> tensor<2x4x8x13xf32>
  %16 = aten.call "_unsafe_view"(%15) {size = array<i64: 8, 8, 13>} : (tensor<2x4x8x13xf32>) -> tensor<8x8x13xf32>
  %17 = aten.call "bmm"(%13, %16) : (tensor<8x13x8xf32>, tensor<8x8x13xf32>) -> tensor<8x13x13xf32>
  %18 = aten.call "view"(%17) {size = array<i64: 2, 4, 13, 13>} : (tensor<8x13x13xf32>) -> tensor<2x4x13x13xf32>
  %19 = aten.call "add.Tensor"(%18, %8) : (tensor<2x4x13x13xf32>, tensor<13x13xf32>) -> tensor<2x4x13x13xf32>
  %20 = aten.call "_safe_softmax"(%19) {dim = -1 : i64} : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %21 = aten.call "detach"(%20) : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %22 = aten.call "empty.memory_format"() {dtype = i1, size = array<i64: 2, 4, 13, 13>} : () -> tensor<2x4x13x13xi1>
  %23 = aten.call "bernoulli.p"(%22) {generator = #aten.generator<0>, p = 9.000000e-01 : f64} : (tensor<2x4x13x13xi1>) -> tensor<2x4x13x13xi1>
  %24 = aten.call "mul.Tensor"(%20, %23) : (tensor<2x4x13x13xf32>, tensor<2x4x13x13xi1>) -> tensor<2x4x13x13xf32>
  %25 = aten.call "mul.Scalar"(%24) {other = 1.1111111111111112 : f64} : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %26 = aten.call "expand"(%25) {size = array<i64: 2, 4, 13, 13>} : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %27 = aten.call "view"(%26) {size = array<i64: 8, 13, 13>} : (tensor<2x4x13x13xf32>) -> tensor<8x13x13xf32>
  %28 = aten.call "expand"(%2) {size = array<i64: 2, 4, 13, 8>} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %29 = aten.call "clone"(%28) {memory_format = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32>
  %30 = aten.call "_unsafe_view"(%29) {size = array<i64: 8, 13, 8>} : (tensor<2x4x13x8xf32>) -> tensor<8x13x8xf32>
  %31 = aten.call "bmm"(%27, %30) : (tensor<8x13x13xf32>, tensor<8x13x8xf32>) -> tensor<8x13x8xf32>
  %32 = aten.call "view"(%31) {size = array<i64: 2, 4, 13, 8>} : (tensor<8x13x8xf32>) -> tensor<2x4x13x8xf32>
  %33 = aten.call "_to_copy"(%32) {dtype = bf16} : (tensor<2x4x13x8xf32>) -> tensor<2x4x13x8xbf16>
  %34 = aten.call "_to_copy"(%g) backward {dtype = f32, layout = 0 : i64} : (tensor<2x4x13x8xbf16, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>
  %35 = aten.call "clone"(%34) backward {memory_format = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 8, 32, 1]>>) -> tensor<2x4x13x8xf32>
  %36 = aten.call "_unsafe_view"(%35) backward {size = array<i64: 8, 13, 8>} : (tensor<2x4x13x8xf32>) -> tensor<8x13x8xf32>
  %37 = aten.call "transpose.int"(%27) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x13x13xf32>) -> tensor<8x13x13xf32, #aten.strides<[169, 1, 13]>>
  %38 = aten.call "bmm"(%37, %36) backward : (tensor<8x13x13xf32, #aten.strides<[169, 1, 13]>>, tensor<8x13x8xf32>) -> tensor<8x13x8xf32>
  %39 = aten.call "transpose.int"(%30) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x13x8xf32>) -> tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>
  %40 = aten.call "bmm"(%36, %39) backward : (tensor<8x13x8xf32>, tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>) -> tensor<8x13x13xf32>
  %41 = aten.call "view"(%38) backward {size = array<i64: 2, 4, 13, 8>} : (tensor<8x13x8xf32>) -> tensor<2x4x13x8xf32>
  %42 = aten.call "view"(%40) backward {size = array<i64: 2, 4, 13, 13>} : (tensor<8x13x13xf32>) -> tensor<2x4x13x13xf32>
  %43 = aten.call "native_dropout_backward"(%42, %23) backward {scale = 1.1111111111111112 : f64} : (tensor<2x4x13x13xf32>, tensor<2x4x13x13xi1>) -> tensor<2x4x13x13xf32>
  %44 = aten.call "detach"(%21) backward : (tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %45 = aten.call "_softmax_backward_data"(%43, %44) backward {dim = -1 : i64, input_dtype = f32} : (tensor<2x4x13x13xf32>, tensor<2x4x13x13xf32>) -> tensor<2x4x13x13xf32>
  %46 = aten.call "view"(%45) backward {size = array<i64: 8, 13, 13>} : (tensor<2x4x13x13xf32>) -> tensor<8x13x13xf32>
  %47 = aten.call "transpose.int"(%13) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x13x8xf32>) -> tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>
  %48 = aten.call "bmm"(%47, %46) backward : (tensor<8x8x13xf32, #aten.strides<[104, 1, 8]>>, tensor<8x13x13xf32>) -> tensor<8x8x13xf32>
  %49 = aten.call "transpose.int"(%16) backward {dim0 = 1 : i64, dim1 = 2 : i64} : (tensor<8x8x13xf32>) -> tensor<8x13x8xf32, #aten.strides<[104, 1, 13]>>
  %50 = aten.call "bmm"(%46, %49) backward : (tensor<8x13x13xf32>, tensor<8x13x8xf32, #aten.strides<[104, 1, 13]>>) -> tensor<8x13x8xf32>
  %51 = aten.call "view"(%48) backward {size = array<i64: 2, 4, 8, 13>} : (tensor<8x8x13xf32>) -> tensor<2x4x8x13xf32>
  %52 = aten.call "view"(%50) backward {size = array<i64: 2, 4, 13, 8>} : (tensor<8x13x8xf32>) -> tensor<2x4x13x8xf32>
  %53 = aten.call "mul.Scalar"(%51) backward {other = 0.59460355750136051 : f64} : (tensor<2x4x8x13xf32>) -> tensor<2x4x8x13xf32>
  %54 = aten.call "transpose.int"(%53) backward {dim0 = -2 : i64, dim1 = -1 : i64} : (tensor<2x4x8x13xf32>) -> tensor<2x4x13x8xf32, #aten.strides<[416, 104, 1, 13]>>
  %55 = aten.call "mul.Scalar"(%52) backward {other = 0.59460355750136051 : f64} : (tensor<2x4x13x8xf32>) -> tensor<2x4x13x8xf32>
  %56 = aten.call "_to_copy"(%41) backward {dtype = bf16, layout = 0 : i64} : (tensor<2x4x13x8xf32>) -> tensor<2x4x13x8xbf16>
  %57 = aten.call "_to_copy"(%54) backward {dtype = bf16, layout = 0 : i64} : (tensor<2x4x13x8xf32, #aten.strides<[416, 104, 1, 13]>>) -> tensor<2x4x13x8xbf16, #aten.strides<[416, 104, 1, 13]>>
  %58 = aten.call "_to_copy"(%55) backward {dtype = bf16, layout = 0 : i64} : (tensor<2x4x13x8xf32>) -> tensor<2x4x13x8xbf16>
  return %33, %56, %57, %58 : tensor<2x4x13x8xbf16>, tensor<2x4x13x8xbf16>, tensor<2x4x13x8xbf16, #aten.strides<[416, 104, 1, 13]>>, tensor<2x4x13x8xbf16>
}

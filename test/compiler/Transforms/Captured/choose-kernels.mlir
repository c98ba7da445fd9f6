// Tests that a matrix product, or an attention, takes the kernel that is the fastest in the table
// for its shapes and strides; that it stays ATen's where another one wins less
// than 3 %, or was not measured, or cannot compute it; that it has its measured
// time; and that kernels=exact changes nothing.
// RUN: fsdp-opt %s --fsdp-choose-kernels="kernels=fast kernel-table=%S/../Inputs/kernels.toml cluster=h100x8" | FileCheck %s
// RUN: fsdp-opt %s --fsdp-choose-kernels | FileCheck %s --check-prefix=EXACT
// RUN: fsdp-opt %s --fsdp-choose-kernels="kernels=fast kernel-table=%S/../Inputs/kernels.toml cluster=h100x8" -o /dev/null --remarks-filter=fsdp-choose-kernels --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

// EXACT-NOT: measured

// CHECK-LABEL: func.func @step
// REMARK: [Passed] kernel {{.*}}Remark=onednn_linear, aten_us=2000.0, product="mm float32 512x256 256x5000", us=1000.0
func.func @step(%x: tensor<512x256xf32>, %w: tensor<256x5000xf32>, %t: tensor<256x5000xf32, #aten.strides<[1, 256]>>, %b: tensor<64xf32>, %v: tensor<256x64xf32>, %s: tensor<8x8xf32>, %m: tensor<16x16xf32>, %d: tensor<8x8xf64>, %h: tensor<512x256xbf16>, %g: tensor<256x512xbf16>, %k: tensor<2x16x8xf32>, %l: tensor<2x8x16xf32>, %q: tensor<1x2x16x8xbf16>, %n: tensor<16x16xbf16>) {
  // CHECK: aten.call "fsdp_mlir::mm.onednn_linear"(%{{.*}}, %{{.*}}) backward measured(1.000000e-03) :
  %0 = aten.call "mm"(%x, %w) backward : (tensor<512x256xf32>, tensor<256x5000xf32>) -> tensor<512x5000xf32>
  // The same shapes, other strides.
  // CHECK: aten.call "fsdp_mlir::mm.onednn"
  %1 = aten.call "mm"(%x, %t) : (tensor<512x256xf32>, tensor<256x5000xf32, #aten.strides<[1, 256]>>) -> tensor<512x5000xf32>
  // CHECK: aten.call "fsdp_mlir::addmm.onednn_linear"
  %2 = aten.call "addmm"(%b, %x, %v) : (tensor<64xf32>, tensor<512x256xf32>, tensor<256x64xf32>) -> tensor<512x64xf32>
  // CHECK: aten.call "fsdp_mlir::bmm.onednn"
  %3 = aten.call "bmm"(%k, %l) : (tensor<2x16x8xf32>, tensor<2x8x16xf32>) -> tensor<2x16x16xf32>
  // A choice that another pass has made is made anew.
  // CHECK: aten.call "mm"(%{{.*}}, %{{.*}}) measured({{.*}}) : (tensor<8x8xf32>
  // EXACT: aten.call "fsdp_mlir::mm.onednn"
  %4 = aten.call "fsdp_mlir::mm.onednn"(%s, %s) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  // Without ATen's time nothing can be said.
  // REMARK: [Missed] kernel {{.*}}stays ATen's: the table lacks its time{{.*}}product="mm float32 16x16 16x16"
  // CHECK: aten.call "mm"(%{{.*}}, %{{.*}}) : (tensor<16x16xf32>
  %5 = aten.call "mm"(%m, %m) : (tensor<16x16xf32>, tensor<16x16xf32>) -> tensor<16x16xf32>
  // Another factor, another dtype: ATen's alone.
  // CHECK: aten.call "addmm"
  %6 = aten.call "addmm"(%b, %x, %v) {alpha = 2.0 : f64} : (tensor<64xf32>, tensor<512x256xf32>, tensor<256x64xf32>) -> tensor<512x64xf32>
  // CHECK: aten.call "mm"(%{{.*}}, %{{.*}}) : (tensor<8x8xf64>
  %7 = aten.call "mm"(%d, %d) : (tensor<8x8xf64>, tensor<8x8xf64>) -> tensor<8x8xf64>
  // Types of 16 bits are in the table too.
  // CHECK: aten.call "fsdp_mlir::mm.onednn_primitive"(%{{.*}}, %{{.*}}) measured(5.000000e-04) : (tensor<512x256xbf16>
  %8 = aten.call "mm"(%h, %g) : (tensor<512x256xbf16>, tensor<256x512xbf16>) -> tensor<512x512xbf16>
  // Attention is one too, with its numbers; with a mask it is ATen's alone.
  // CHECK: aten.call "fsdp_mlir::attention.onednn_primitive"(%{{.*}}) measured(5.000000e-06) {is_causal = true}
  %9:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q) {is_causal = true} : (tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>) -> (tensor<1x2x16x8xbf16>, tensor<1x2x16xf32>)
  // CHECK: aten.call "fsdp_mlir::attention_backward.onednn_primitive"
  %10:3 = aten.call "_scaled_dot_product_flash_attention_for_cpu_backward"(%q, %q, %q, %q, %9#0, %9#1) backward {dropout_p = 0.0 : f64, is_causal = true} : (tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16xf32>) -> (tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>)
  // CHECK: aten.call "_scaled_dot_product_flash_attention_for_cpu"
  %11:2 = aten.call "_scaled_dot_product_flash_attention_for_cpu"(%q, %q, %q, %n) : (tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<1x2x16x8xbf16>, tensor<16x16xbf16>) -> (tensor<1x2x16x8xbf16>, tensor<1x2x16xf32>)
  return
}
// REMARK: [Passed] kernels {{.*}}aten_us=5223.0, chosen=7, products=9, us=2612.0

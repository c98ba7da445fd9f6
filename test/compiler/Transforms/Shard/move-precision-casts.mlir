// Tests that a parameter is cast in front of its gathers, so that what moves is
// what kernels read; that forward and backward each have a gather of the cast;
// and that gradients are reduced in what the unit or the option says, with
// casts in front of the reduction and behind it.
// RUN: fsdp-opt %s --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard="reshard-after-forward=true" | FileCheck %s --check-prefix=BEFORE
// RUN: fsdp-opt %s --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard="reshard-after-forward=true" --fsdp-insert-grad-reduction --fsdp-move-precision-casts | FileCheck %s --check-prefixes=CHECK,OWN
// RUN: fsdp-opt %s --fsdp-assign-units --fsdp-shard-state="mesh=2" --fsdp-insert-unshard="reshard-after-forward=true" --fsdp-insert-grad-reduction="reduce-dtype=float32" --fsdp-move-precision-casts | FileCheck %s --check-prefixes=CHECK,OPTION
// RUN: fsdp-opt %s --fsdp-assign-units --fsdp-shard-state="mesh=1" --fsdp-insert-grad-reduction --fsdp-move-precision-casts | FileCheck %s --check-prefix=ONE
// RUN: fsdp-opt %s --fsdp-shard="mesh=4" | FileCheck %s --check-prefix=SHARD
// RUN: fsdp-opt %s --fsdp-shard="mesh=4 shard-layout=flat" | FileCheck %s --check-prefix=FLAT
// RUN: fsdp-opt %s --fsdp-shard="mesh=2" -o /dev/null --remarks-filter='.*' --remark-format=emitRemark 2>&1 | FileCheck %s --check-prefix=REMARK

fsdp.unit "" root
fsdp.unit "half" {reduce_dtype = f16}
fsdp.state @w parameter : tensor<8x16xf32> {trainable, unit = ""}
fsdp.state @half.w parameter : tensor<8x16xf32> {trainable, unit = "half"}

func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
  %0 = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

func.func @step(%x: tensor<8x16xbf16> {fsdp.input = "x"}) -> (tensor<bf16> {fsdp.output = "loss"}) {
  %w = fsdp.load @w : tensor<8x16xf32>
  %c = aten.call "_to_copy"(%w) {dtype = bf16, fsdp.precision_cast} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %h = fsdp.load @half.w : tensor<8x16xf32>
  %d = aten.call "_to_copy"(%h) {dtype = bf16, fsdp.precision_cast} : (tensor<8x16xf32>) -> tensor<8x16xbf16>
  %y = aten.call "mul.Tensor"(%x, %c) : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  %z = aten.call "mul.Tensor"(%y, %d) : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  %loss = aten.call "sum"(%z) : (tensor<8x16xbf16>) -> tensor<bf16>
  %gh = aten.call "mul.Tensor"(%y, %x) backward : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  %gw = aten.call "mul.Tensor"(%d, %x) backward : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<8x16xbf16>
  %gwf = aten.call "_to_copy"(%gw) backward {dtype = f32, fsdp.precision_cast} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
  %ghf = aten.call "_to_copy"(%gh) backward {dtype = f32, fsdp.precision_cast} : (tensor<8x16xbf16>) -> tensor<8x16xf32>
  fsdp.update @sgd @w, %gwf [] : tensor<8x16xf32>
  fsdp.update @sgd @half.w, %ghf [] : tensor<8x16xf32>
  return %loss : tensor<bf16>
}

// Naive first: each reader has a gather of its own, and casts the whole.
// BEFORE: %[[U:.*]] = fsdp.unshard %{{.*}} {region = #fsdp<region forward>, unit = ""} : tensor<8x16xf32>
// BEFORE-NEXT: %[[C:.*]] = aten.call "_to_copy"(%[[U]]) {dtype = bf16, fsdp.precision_cast}
// BEFORE-NEXT: aten.call "mul.Tensor"(%{{.*}}, %[[C]])

// CHECK: %[[W:.*]] = fsdp.load @w
// CHECK: %[[H:.*]] = fsdp.load @half.w
// CHECK: %[[C:.*]] = aten.call "_to_copy"(%[[W]]) {dtype = bf16, fsdp.precision_cast}
// CHECK-NEXT: %[[U:.*]] = fsdp.unshard %[[C]] {region = #fsdp<region forward>, unit = ""} : tensor<8x16xbf16>
// CHECK-NEXT: aten.call "mul.Tensor"(%{{.*}}, %[[U]])
// CHECK: fsdp.unshard %{{.*}} {region = #fsdp<region forward>, unit = "half"} : tensor<8x16xbf16>
// The unit says f16 itself.
// CHECK: %[[GH:.*]] = aten.call "mul.Tensor"({{.*}}) backward
// CHECK-NEXT: %[[G16:.*]] = aten.call "_to_copy"(%[[GH]]) backward {dtype = f16, fsdp.precision_cast}
// CHECK-NEXT: %[[R16:.*]] = fsdp.reduce_grad %[[G16]] {unit = "half"} : tensor<8x16xf16>
// CHECK-NEXT: %[[R:.*]] = aten.call "_to_copy"(%[[R16]]) backward {dtype = f32, fsdp.precision_cast}
// Backward casts and gathers anew.
// CHECK-NEXT: %[[B:.*]] = aten.call "_to_copy"(%[[H]]) backward {dtype = bf16, fsdp.precision_cast}
// CHECK-NEXT: %[[V:.*]] = fsdp.unshard %[[B]] {region = #fsdp<region backward>, unit = "half"} : tensor<8x16xbf16>
// CHECK-NEXT: %[[GW:.*]] = aten.call "mul.Tensor"(%[[V]]
// The root leaves it open: what backward computes in, or what the option says.
// OWN-NEXT: %[[SUM:.*]] = fsdp.reduce_grad %[[GW]] {unit = ""} : tensor<8x16xbf16>
// OWN-NEXT: %[[S:.*]] = aten.call "_to_copy"(%[[SUM]]) backward {dtype = f32
// OPTION-NEXT: %[[F:.*]] = aten.call "_to_copy"(%[[GW]]) backward {dtype = f32
// OPTION-NEXT: %[[S:.*]] = fsdp.reduce_grad %[[F]] {unit = ""} : tensor<8x16xf32>
// CHECK-NEXT: fsdp.update @sgd @w, %[[S]]
// CHECK-NEXT: fsdp.update @sgd @half.w, %[[R]]

// One rank gathers and reduces nothing, and rounds as several would.
// ONE-NOT: fsdp.unshard
// ONE: %[[GH:.*]] = aten.call "mul.Tensor"({{.*}}) backward
// ONE-NEXT: %[[G16:.*]] = aten.call "_to_copy"(%[[GH]]) backward {dtype = f16
// ONE-NEXT: %[[G:.*]] = aten.call "_to_copy"(%[[G16]]) backward {dtype = f32
// ONE-NOT: fsdp.reduce_grad
// ONE: fsdp.update @sgd @half.w, %[[G]]

// A rank casts its part. A sum of four in f16 is divided by two before it and
// by two behind it.
// SHARD: %[[C:.*]] = aten.call "_to_copy"(%{{.*}}) {dtype = bf16, fsdp.precision_cast} : (tensor<2x16xf32>) -> tensor<2x16xbf16>
// SHARD-NEXT: shard.all_gather %[[C]] {{.*}} : tensor<2x16xbf16> -> tensor<8x16xbf16>
// SHARD: %[[H:.*]] = aten.call "div.Scalar"(%{{.*}}) backward {other = 2.000000e+00 : f64} : (tensor<8x16xf16>)
// SHARD: %[[SUM:.*]] = shard.reduce_scatter %[[H]] {{.*}} : tensor<8x16xf16> -> tensor<2x16xf16>
// SHARD-NEXT: %[[MEAN:.*]] = aten.call "div.Scalar"(%[[SUM]]) backward {other = 2.000000e+00 : f64}
// SHARD-NEXT: aten.call "_to_copy"(%[[MEAN]]) backward {dtype = f32, {{.*}}} : (tensor<2x16xf16>) -> tensor<2x16xf32>
// SHARD: shard.reduce_scatter {{.*}} : tensor<8x16xbf16> -> tensor<2x16xbf16>
// SHARD-NEXT: aten.call "div.Scalar"{{.*}}other = 4.000000e+00

// A flat parameter is cast once, as a whole, and is not mapped: other ranks
// cannot read a cast of it in place.
// FLAT: fsdp.state @"/flat.0" parameter : tensor<32xf32>
// FLAT-NOT: mapped
// FLAT: %[[C:.*]] = aten.call "_to_copy"(%{{.*}}) {dtype = bf16, fsdp.precision_cast} : (tensor<32xf32>) -> tensor<32xbf16>
// FLAT-NEXT: %[[G:.*]] = shard.all_gather %[[C]] {{.*}} : tensor<32xbf16> -> tensor<128xbf16>
// FLAT-NEXT: aten.call "as_strided"(%[[G]])
// FLAT: shard.reduce_scatter {{.*}} : tensor<128xf16> -> tensor<32xf16>
// FLAT: aten.call "_to_copy"(%{{.*}}) backward {dtype = f32, {{.*}}} : (tensor<32xf16>) -> tensor<32xf32>

// REMARK-DAG: remark: {{.*}}averaged over the ranks", dtype=f16, state=half.w
// REMARK-DAG: remark: {{.*}}gathers of cast parameters", gathers=2, unit=half

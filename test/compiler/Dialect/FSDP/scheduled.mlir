// Tests that the ops of the scheduled phase print as they are read, and that
// what is in flight is neither merged nor dropped.
// RUN: fsdp-opt %s | fsdp-opt | FileCheck %s
// RUN: fsdp-opt %s --cse --canonicalize | FileCheck %s --check-prefix=PINNED

// CHECK-LABEL: func.func @step
// PINNED-LABEL: func.func @step
func.func @step(%a: tensor<3x128xf32>, %b: tensor<3xf32>, %g: tensor<4x5xf32>, %flat: tensor<16xf32>, %grads: tensor<64xf32>, %norm: tensor<f64>, %rows: tensor<2x64xui8>) -> (tensor<12x128xf32>, tensor<12xf32>) {
  // CHECK: fsdp.pack %{{.*}}, %{{.*}} {members = [#fsdp.member<offset = 0, bytes = 1536, blocks = 1>, #fsdp.member<offset = 1536, bytes = 12, blocks = 1>]} : (tensor<3x128xf32>, tensor<3xf32>) -> tensor<1600xui8>
  %in = fsdp.pack %a, %b {members = [#fsdp.member<offset = 0, bytes = 1536, blocks = 1>, #fsdp.member<offset = 1536, bytes = 12, blocks = 1>]} : (tensor<3x128xf32>, tensor<3xf32>) -> tensor<1600xui8>
  // CHECK: fsdp.all_gather %{{.*}} {region = #fsdp<region forward>, unit = "u"} : tensor<1600xui8> -> tensor<6400xui8>
  %out = fsdp.all_gather %in {unit = "u", region = #fsdp<region forward>} : tensor<1600xui8> -> tensor<6400xui8>
  // CHECK: %[[K:.*]] = fsdp.keep %{{.*}} {ranks = 2 : i64} : tensor<6400xui8> -> tensor<3200xui8>
  %kept = fsdp.keep %out {ranks = 2 : i64} : tensor<6400xui8> -> tensor<3200xui8>
  // CHECK: fsdp.all_gather %[[K]] {ranks = 2 : i64, region = #fsdp<region backward>, unit = "u"} : tensor<3200xui8> -> tensor<6400xui8>
  %again = fsdp.all_gather %kept {unit = "u", region = #fsdp<region backward>, ranks = 2 : i64} : tensor<3200xui8> -> tensor<6400xui8>
  // CHECK: fsdp.unpack %{{.*}} {members = [{{.*}}blocks = 4>]} : (tensor<6400xui8>) -> (tensor<12x128xf32>, tensor<12xf32>)
  %A, %B = fsdp.unpack %out {members = [#fsdp.member<offset = 0, bytes = 1536, blocks = 4>, #fsdp.member<offset = 1536, bytes = 12, blocks = 4>]} : (tensor<6400xui8>) -> (tensor<12x128xf32>, tensor<12xf32>)
  // CHECK: %[[F:.*]] = fsdp.all_gather_start
  // CHECK: fsdp.wait %[[F]] : <tensor<6400xui8>>
  // PINNED-COUNT-2: fsdp.all_gather_start
  %f = fsdp.all_gather_start %in {unit = "u", region = #fsdp<region forward>} : tensor<1600xui8> -> !fsdp.future<tensor<6400xui8>>
  %f2 = fsdp.all_gather_start %in {unit = "u", region = #fsdp<region forward>} : tensor<1600xui8> -> !fsdp.future<tensor<6400xui8>>
  // PINNED-COUNT-2: fsdp.wait
  %w = fsdp.wait %f : !fsdp.future<tensor<6400xui8>>
  %w2 = fsdp.wait %f2 : !fsdp.future<tensor<6400xui8>>
  // CHECK: %[[P:.*]] = fsdp.pack %{{.*}} -> tensor<4x16xf32>
  %p = fsdp.pack %g {members = [#fsdp.member<offset = 0, bytes = 20, blocks = 4>]} : (tensor<4x5xf32>) -> tensor<4x16xf32>
  // CHECK: fsdp.reduce_scatter %[[P]] {unit = "u"} : tensor<4x16xf32> -> tensor<16xf32>
  %r = fsdp.reduce_scatter %p {unit = "u"} : tensor<4x16xf32> -> tensor<16xf32>
  // CHECK: fsdp.all_gather %{{.*}} {mapped, region = #fsdp<region forward>, unit = "u"} : tensor<16xf32> -> tensor<64xf32>
  %whole = fsdp.all_gather %flat {unit = "u", region = #fsdp<region forward>, mapped} : tensor<16xf32> -> tensor<64xf32>
  // CHECK: fsdp.reduce_scatter %{{.*}} {divisor = 4.000000e+00 : f64, unit = "u"} : tensor<64xf32> -> tensor<16xf32>
  %mean = fsdp.reduce_scatter %grads {unit = "u", divisor = 4.0 : f64} : tensor<64xf32> -> tensor<16xf32>
  // CHECK: fsdp.reduce_scatter_start %[[P]] {unit = "u"}
  // PINNED: fsdp.reduce_scatter_start
  %s = fsdp.reduce_scatter_start %p {unit = "u"} : tensor<4x16xf32> -> !fsdp.future<tensor<16xf32>>
  // CHECK: fsdp.all_reduce sum gradient %{{.*}} {divisor = 4.000000e+00 : f64, unit = "u"} : tensor<16xf32>
  %all = fsdp.all_reduce sum gradient %mean {unit = "u", divisor = 4.0 : f64} : tensor<16xf32>
  // CHECK: fsdp.all_reduce_start max norm %{{.*}} {axes = array<i64: 1>} : <tensor<f64>>
  // PINNED: fsdp.all_reduce_start max norm
  %n = fsdp.all_reduce_start max norm %norm {axes = array<i64: 1>} : !fsdp.future<tensor<f64>>
  // CHECK: fsdp.all_to_all %{{.*}} {unit = "u"} : tensor<2x64xui8>
  %mine = fsdp.all_to_all %rows {unit = "u"} : tensor<2x64xui8>
  // CHECK: fsdp.all_to_all_start %{{.*}} {axes = array<i64: 1>, unit = "u"} : <tensor<2x64xui8>>
  // PINNED: fsdp.all_to_all_start
  %m = fsdp.all_to_all_start %mine {unit = "u", axes = array<i64: 1>} : !fsdp.future<tensor<2x64xui8>>
  return %A, %B : tensor<12x128xf32>, tensor<12xf32>
}

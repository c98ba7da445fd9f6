// Tests that each constraint of the scheduled phase is an error when broken.
// RUN: fsdp-opt %s -allow-unregistered-dialect -split-input-file -verify-diagnostics --fsdp-verify-async

func.func @step(%a: tensor<64xui8>) {
  // expected-error @below {{A1: is not asynchronous}}
  %0 = fsdp.all_gather %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> tensor<128xui8>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%a: tensor<64xui8>) {
  // expected-error @below {{A2: is waited for 0 times; a future has exactly one wait [FSDP-E0410]}}
  %0 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  // expected-error @below {{A2: is waited for 2 times; a future has exactly one wait}}
  %1 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %2 = fsdp.wait %1 : !fsdp.future<tensor<128xui8>>
  %3 = fsdp.wait %1 : !fsdp.future<tensor<128xui8>>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%a: tensor<64xui8>) {
  // expected-error @below {{A3: is not waited for in its own block}}
  %0 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  "test.branch"() [^next] : () -> ()
^next:
  %1 = fsdp.wait %0 : !fsdp.future<tensor<128xui8>>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%a: tensor<64xui8>) {
  "test.branch"() [^next] : () -> ()
^next:
  // expected-error @below {{A4: is not in a program's first block}}
  %0 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<128xui8>>
  return
}

// -----

shard.grid @mesh(shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%a: tensor<64xui8>, %g: tensor<2x16xf32>, %rows: tensor<2x64xui8>) {
  // expected-error @below {{A5: its type is not that of a mesh of 4 ranks}}
  %x = fsdp.all_to_all_start %rows {unit = ""} : !fsdp.future<tensor<2x64xui8>>
  %y = fsdp.wait %x : !fsdp.future<tensor<2x64xui8>>
  // expected-error @below {{A5: its type is not that of a mesh of 4 ranks}}
  %0 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<128xui8>>
  // expected-error @below {{A5: its type is not that of a mesh of 4 ranks}}
  %2 = fsdp.reduce_scatter_start %g {unit = "", divisor = 4.0 : f64} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
  %3 = fsdp.wait %2 : !fsdp.future<tensor<16xf32>>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%a: tensor<64xui8>) {
  // expected-error @below {{A6: belongs to the unit "u", which does not exist}}
  %0 = fsdp.all_gather_start %a {unit = "u", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<128xui8>>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%g: tensor<2x16xf32>) {
  // expected-error @below {{A7: its sum over 2 ranks is divided by 1.000000e+00 : f64, not by 2.000000e+00}}
  %0 = fsdp.reduce_scatter_start %g {unit = ""} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<16xf32>>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%norm: tensor<f64>, %g: tensor<16xf32>) {
  // expected-error @below {{A5: its type is not that of a mesh of 2 ranks}}
  %0 = fsdp.all_reduce_start max norm %norm {axes = array<i64: 1>} : !fsdp.future<tensor<f64>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<f64>>
  // expected-error @below {{A7: its sum over 2 ranks is divided by 3.000000e+00 : f64, not by 2.000000e+00}}
  %2 = fsdp.all_reduce_start sum gradient %g {unit = "", divisor = 3.0 : f64} : !fsdp.future<tensor<16xf32>>
  %3 = fsdp.wait %2 : !fsdp.future<tensor<16xf32>>
  return
}

// -----

// A unit's own divisor takes the place of the number of ranks.
shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root {gradient_divisor = 3.0 : f64}
func.func @step(%g: tensor<2x16xf32>) {
  // expected-error @below {{A7: its sum over 2 ranks is divided by 2.000000e+00 : f64, not by 3.000000e+00}}
  %0 = fsdp.reduce_scatter_start %g {unit = "", divisor = 2.0 : f64} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<16xf32>>
  return
}

// -----

shard.grid @mesh(shape = 4) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
func.func @step(%a: tensor<64xui8>) {
  %0 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region forward>} : tensor<64xui8> -> !fsdp.future<tensor<256xui8>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<256xui8>>
  %2 = fsdp.keep %1 {ranks = 2 : i64} : tensor<256xui8> -> tensor<128xui8>
  // expected-error @below {{A8: is among 4 of 4 ranks, and not of what as many keep of a gather over all}}
  %3 = fsdp.all_gather_start %2 {unit = "", region = #fsdp<region backward>, ranks = 4 : i64} : tensor<128xui8> -> !fsdp.future<tensor<512xui8>>
  %4 = fsdp.wait %3 : !fsdp.future<tensor<512xui8>>
  // expected-error @below {{A8: is among 2 of 4 ranks, and not of what as many keep of a gather over all}}
  %5 = fsdp.all_gather_start %a {unit = "", region = #fsdp<region backward>, ranks = 2 : i64} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
  %6 = fsdp.wait %5 : !fsdp.future<tensor<128xui8>>
  return
}

// -----

shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
fsdp.unit "" root
fsdp.state @w parameter : tensor<16xf32> {trainable, unit = "", on_host}
func.func @step(%g: tensor<16xf32>) {
  // expected-error @below {{A9: copies into @w, which is elsewhere or not what it has updated}}
  %0 = fsdp.offload_start %g {unit = "", into = @w} : !fsdp.future<tensor<16xf32>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<16xf32>>
  return
}

// -----

// A sum over replicas is over all of them.
shard.grid @mesh(shape = 2x2x2) {fsdp.axes = [#fsdp.axis<"a", replicate>, #fsdp.axis<"b", replicate>, #fsdp.axis<"c", shard>]}
fsdp.unit "" root
func.func @step(%g: tensor<16xf32>) {
  // expected-error @below {{A5: its type is not that of a mesh of 8 ranks, or it is over other axes than those of a role}}
  %0 = fsdp.all_reduce_start sum gradient %g {axes = array<i64: 1>, unit = "", divisor = 8.0 : f64} : !fsdp.future<tensor<16xf32>>
  %1 = fsdp.wait %0 : !fsdp.future<tensor<16xf32>>
  return
}

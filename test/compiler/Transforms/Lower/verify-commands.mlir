// Tests that verify-commands passes what is ordered: by a stream, by events, and over ranks by a collective.
// RUN: fsdp-opt %s --split-input-file --fsdp-verify-commands | FileCheck %s

// Values use the same bytes one after the other.
// CHECK-LABEL: func.func @step
module attributes {fsdp.arenas = array<i64: 192, 0, 0>} {
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 4>}) -> (tensor<f32> {fsdp.output = "loss"})
      attributes {fsdp.live_bytes = 192 : i64} {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 4>} : tensor<f32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<f32>) -> tensor<f32>
    // %x is not read any more.
    %b = fsdp.cmd.value {place = #fsdp.place<0, 64, 4>} : tensor<f32>
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<f32>) -> tensor<f32>
    %n = fsdp.cmd.value state @n {place = #fsdp.place<0, 0, 4>} : tensor<f32>
    fsdp.cmd.copy from %b : tensor<f32> to %n : tensor<f32> {pieces = [#fsdp.piece<bytes = 4>]}
    fsdp.cmd.record 0
    fsdp.cmd.wait 0
    return %b : tensor<f32>
  }
}

// -----

// A sum on its own stream reads a bucket that was computed in parts, and the bucket is used again once the sum is there.
// CHECK-LABEL: func.func @step
module attributes {fsdp.arenas = array<i64: 512, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<f32> {fsdp.output = "loss"})
      attributes {fsdp.live_bytes = 384 : i64} {
    %w = fsdp.cmd.value {place = #fsdp.place<0, 128, 128>} : tensor<32xf32>
    %a = fsdp.cmd.value part of %w : tensor<32xf32> {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value part of %w : tensor<32xf32> {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    %r = fsdp.cmd.value {place = #fsdp.place<0, 256, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.record 0
    fsdp.cmd.wait 0 {stream = 2 : i64}
    fsdp.cmd.collective reduce_scatter %w : tensor<32xf32> to %r : tensor<16xf32> {count = 16 : i64, dtype = f32, divisor = 2.0 : f64, channel = 1 : i64, stream = 2 : i64}
    fsdp.cmd.record 1 {stream = 2 : i64}
    %c = fsdp.cmd.value {place = #fsdp.place<0, 320, 64>} : tensor<16xf32>
    %d = fsdp.cmd.value {place = #fsdp.place<0, 384, 64>} : tensor<16xf32>
    // Meanwhile others are read and written.
    fsdp.cmd.aten "neg"(%x) to (%c) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.wait 1
    fsdp.cmd.aten "neg"(%r) to (%d) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    %e = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%c) to (%e) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    %s = fsdp.cmd.value {place = #fsdp.place<0, 448, 4>} : tensor<f32>
    fsdp.cmd.aten "sum"(%e) to (%s) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<f32>
    return %s : tensor<f32>
  }
}

// -----

// A flat state is updated when a collective says that no rank reads it in its window any more.
// CHECK-LABEL: func.func @step
module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, is_flat, mapped, global = tensor<2048xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @w.all parameter : tensor<2048xf32> {trainable, flat = @w, flat_offset = 0 : i64, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, is_flat, mapped, global = tensor<2048xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, fsdp.place = #fsdp.place<0, 4096, 4096>}
  fsdp.state @v.all parameter : tensor<2048xf32> {trainable, flat = @v, flat_offset = 0 : i64, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    %0 = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    return %0 : tensor<*xf32>
  }
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<f32> {fsdp.output = "loss"})
      attributes {fsdp.live_bytes = 12416 : i64} {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    fsdp.cmd.record 0 {stream = 1 : i64}
    fsdp.cmd.wait 0
    %s = fsdp.cmd.value {place = #fsdp.place<0, 12416, 4>} : tensor<f32>
    fsdp.cmd.aten "sum"(%all) to (%s) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<2048xf32>) -> tensor<f32>
    fsdp.cmd.record 1
    fsdp.cmd.wait 1 {stream = 2 : i64}
    %y = fsdp.cmd.value {place = #fsdp.place<0, 12352, 64>} : tensor<16xf32>
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %y : tensor<16xf32> {count = 16 : i64, dtype = f32, channel = 1 : i64, stream = 2 : i64}
    fsdp.cmd.record 2 {stream = 2 : i64}
    fsdp.cmd.wait 2
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
    %t = fsdp.cmd.value {place = #fsdp.place<0, 12480, 4>} : tensor<f32>
    fsdp.cmd.aten "sum"(%y) to (%t) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<f32>
    return %t : tensor<f32>
  }
}

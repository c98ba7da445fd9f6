// Tests that values get bytes for as long as they are used, views and loads those of what they look into.
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-memory | FileCheck %s --check-prefixes=CHECK,REUSE
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-memory=algorithm=naive | FileCheck %s --check-prefixes=CHECK,APART
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-memory --remarks-filter=fsdp-plan-memory --remark-format=emitRemark -o /dev/null 2>&1 | FileCheck %s --check-prefix=COPY
// RUN: fsdp-opt %s --split-input-file --fsdp-plan-memory=memory-budget-mib=0.0002 -o /dev/null 2>&1 | FileCheck %s --check-prefix=GAPS

// Six values, of which never more than three are in use.
// GAPS: warning: the device arena takes 256 bytes, 47 more than memory-budget-mib=0.0002: what is in use at one time fits, and its addresses leave gaps; lower the budget by as much
// REUSE: module attributes {fsdp.arenas = array<i64: 256, 0, 0>}
// APART: module attributes {fsdp.arenas = array<i64: 448, 0, 0>}
module {
  // CHECK: fsdp.state @w {{.*}}fsdp.place = #fsdp.place<0, 0, 40>
  fsdp.state @w parameter : tensor<10xf32>
  // CHECK-LABEL: func.func @step(
  // CHECK-SAME: tensor<16xf32> {{.*}}fsdp.place = #fsdp.place<0, {{[0-9]+}}, 64>
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // CHECK: fsdp.load @w {fsdp.places = [#fsdp.place<0, 0, 40>]}
    %w = fsdp.load @w : tensor<10xf32>
    // CHECK: "neg"{{.*}}#fsdp.place<0, [[#NEG:]], 64>
    %a = aten.call "neg"(%x) : (tensor<16xf32>) -> tensor<16xf32>
    // CHECK: "view"{{.*}}#fsdp.place<0, [[#NEG]], 64>
    %v = aten.call "view"(%a) {size = array<i64: 4, 4>} : (tensor<16xf32>) -> tensor<4x4xf32>
    // CHECK: "abs"{{.*}}#fsdp.place<0, [[#ABS:]], 64>
    %b = aten.call "abs"(%v) : (tensor<4x4xf32>) -> tensor<4x4xf32>
    // The view kept %a until here; now its bytes are free.
    // REUSE: "sum"{{.*}}#fsdp.place<0, [[#NEG]], 4>
    // APART-NOT: "sum"{{.*}}#fsdp.place<0, [[#NEG]], 4>
    %s = aten.call "sum"(%b) : (tensor<4x4xf32>) -> tensor<f32>
    %t = aten.call "sum"(%w) : (tensor<10xf32>) -> tensor<f32>
    %l = aten.call "mul.Tensor"(%s, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// A state that is read after it was written keeps its old value in a copy.
module {
  // CHECK: fsdp.state @n {{.*}}fsdp.place = #fsdp.place<0, 0, 4>
  fsdp.state @n buffer : tensor<f32> {persistent}
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // CHECK: fsdp.load @n {fsdp.places = [#fsdp.place<0, {{[0-9]+}}, 4>]}
    %old = fsdp.load @n : tensor<f32>
    fsdp.store %x, @n : tensor<f32>
    // CHECK: fsdp.load @n {fsdp.places = [#fsdp.place<0, 0, 4>]}
    %new = fsdp.load @n : tensor<f32>
    %l = aten.call "add.Tensor"(%old, %new) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// What a pack or a store reads is made contiguous unless it is so through its views; what is stored is computed in the
// state; collectives use their bytes, those they read too, from the start to the wait.
module {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  fsdp.state @n buffer : tensor<8x4xf32> {persistent}
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4x8xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %t = aten.call "t"(%x) : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    // COPY: [[#@LINE-1]]:{{.*}}remark: [Missed] copy {{.*}}"a copy row by row, as communication needs it", bytes=128, line={{.*}}plan-memory.mlir:[[#@LINE-1]], module=, of=t
    // CHECK: %[[PLAIN:.*]] = aten.call "clone"(%{{.*}}) {fsdp.places = [#fsdp.place<0, 0, 128>], memory_format = 0 : i64}
    // CHECK: fsdp.store %[[PLAIN]], @n
    fsdp.store %t, @n : tensor<8x4xf32, #aten.strides<[1, 8]>>
    %flat = aten.call "view"(%x) {size = array<i64: 32>} : (tensor<4x8xf32>) -> tensor<32xf32>
    // CHECK: %[[FLAT:.*]] = aten.call "view"
    // CHECK: fsdp.pack %[[FLAT]] {fsdp.places = [#fsdp.place<0, [[#IN:]], 128>]
    %in = fsdp.pack %flat {members = [#fsdp.member<offset = 0, bytes = 64, blocks = 2>]} : (tensor<32xf32>) -> tensor<2x16xf32>
    // CHECK: fsdp.reduce_scatter_start {{.*}}#fsdp.place<0, [[#OUT:]], 64>
    %f = fsdp.reduce_scatter_start %in {unit = ""} : tensor<2x16xf32> -> !fsdp.future<tensor<16xf32>>
    // CHECK-NOT: "neg"{{.*}}#fsdp.place<0, [[#IN]],
    // CHECK-NOT: "neg"{{.*}}#fsdp.place<0, [[#OUT]],
    %meanwhile = aten.call "neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: fsdp.wait {{.*}}#fsdp.place<0, [[#OUT]], 64>
    %r = fsdp.wait %f : !fsdp.future<tensor<16xf32>>
    %a = aten.call "sum"(%r) : (tensor<16xf32>) -> tensor<f32>
    %b = aten.call "sum"(%meanwhile) : (tensor<4x8xf32>) -> tensor<f32>
    %l = aten.call "add.Tensor"(%a, %b) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// Members of one block are computed in the bucket, which is in use from the first on: also what a view of a view gives
// back, but not an input, nor what another pack takes too. What is unpacked from one block stays in the sum.
module {
  shard.grid @mesh(shape = 1) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<4x8xf32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    // CHECK: "neg"{{.*}}#fsdp.place<0, [[#BUCKET:]], 128>
    %a = aten.call "neg"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: "abs"{{.*}}#fsdp.place<0, [[#BUCKET+128]], 128>
    %b = aten.call "abs"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %bt = aten.call "t"(%b) : (tensor<4x8xf32>) -> tensor<8x4xf32, #aten.strides<[1, 8]>>
    %btt = aten.call "t"(%bt) : (tensor<8x4xf32, #aten.strides<[1, 8]>>) -> tensor<4x8xf32>
    // CHECK: "sin"{{.*}}#fsdp.place<0, [[#C:]], 128>
    %c = aten.call "sin"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    // CHECK: fsdp.pack {{.*}}#fsdp.place<0, [[#BUCKET]], 512>
    %p = fsdp.pack %a, %btt, %c, %x {members = [#fsdp.member<offset = 0, bytes = 128, blocks = 1>, #fsdp.member<offset = 128, bytes = 128, blocks = 1>, #fsdp.member<offset = 256, bytes = 128, blocks = 1>, #fsdp.member<offset = 384, bytes = 128, blocks = 1>]} : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<128xf32>
    // CHECK-NOT: fsdp.pack {{.*}}#fsdp.place<0, [[#C]], 128>
    %q = fsdp.pack %c {members = [#fsdp.member<offset = 0, bytes = 128, blocks = 1>]} : (tensor<4x8xf32>) -> tensor<32xf32>
    // CHECK: fsdp.reduce_scatter_start {{.*}}#fsdp.place<0, [[#SUM:]], 512>
    %f = fsdp.reduce_scatter_start %p {unit = ""} : tensor<128xf32> -> !fsdp.future<tensor<128xf32>>
    %r = fsdp.wait %f : !fsdp.future<tensor<128xf32>>
    // CHECK: fsdp.unpack {{.*}}#fsdp.place<0, [[#SUM+128]], 256>
    %u = fsdp.unpack %r {members = [#fsdp.member<offset = 128, bytes = 256, blocks = 1>]} : (tensor<128xf32>) -> tensor<8x8xf32>
    %s = aten.call "sum"(%u) : (tensor<8x8xf32>) -> tensor<f32>
    %t = aten.call "sum"(%q) : (tensor<32xf32>) -> tensor<f32>
    %l = aten.call "add.Tensor"(%s, %t) : (tensor<f32>, tensor<f32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

// -----

// What mapped gathers show lies at whole pages, in front of all other states, and has a range of the window that all
// programs share. What nobody gathers has no range. Members of a flat state have its place.
// CHECK: fsdp.arenas = array<i64: {{[0-9]+}}, 16384, 0>
module {
  shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
  // CHECK: fsdp.state @n {{.*}}fsdp.place = #fsdp.place<0, 8192, 4>
  fsdp.state @n buffer : tensor<f32> {persistent}
  // CHECK: fsdp.state @flat.0 {{.*}}fsdp.place = #fsdp.place<0, 8256, 4096>
  fsdp.state @flat.0 parameter : tensor<1024xf32> {trainable, is_flat, mapped, global = tensor<2048xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>}
  // CHECK: fsdp.state @flat.1 {{.*}}fsdp.place = #fsdp.place<0, 0, 8192>
  fsdp.state @flat.1 parameter : tensor<2048xf32> {trainable, is_flat, mapped, global = tensor<4096xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>}
  // CHECK: fsdp.state @w {{.*}}fsdp.place = #fsdp.place<0, 0, 8192>
  fsdp.state @w parameter : tensor<10xf32> {trainable, flat = @flat.1, flat_offset = 16 : i64}
  // CHECK-LABEL: func.func @step
  func.func @step(%x: tensor<f32> {fsdp.input = "x"}) -> (tensor<f32> {fsdp.output = "loss"}) {
    %w = fsdp.load @flat.1 : tensor<2048xf32>
    // CHECK: fsdp.all_gather_start {{.*}}fsdp.places = [#fsdp.place<1, 0, 16384>]
    %f = fsdp.all_gather_start %w {mapped, unit = "", region = #fsdp<region forward>} : tensor<2048xf32> -> !fsdp.future<tensor<4096xf32>>
    // CHECK: fsdp.wait {{.*}}fsdp.places = [#fsdp.place<1, 0, 16384>]
    %all = fsdp.wait %f : !fsdp.future<tensor<4096xf32>>
    %l = aten.call "sum"(%all) : (tensor<4096xf32>) -> tensor<f32>
    return %l : tensor<f32>
  }
}

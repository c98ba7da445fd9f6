// Tests that verify-commands refuses each constraint's breach by its number.
// RUN: fsdp-opt %s --split-input-file --fsdp-verify-commands -verify-diagnostics

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C1: is not a command; run --fsdp-lower-to-commands first}}
    %a = aten.call "neg"(%x) : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C2: has the place #fsdp.place<0, 320, 64>, which reaches past the end of its arena}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 320, 64>} : tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C2: needs 64 bytes, its place has 32}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 32>} : tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C2: differs from the state @n}}
    %a = fsdp.cmd.value state @n {place = #fsdp.place<0, 0, 4>} : tensor<i32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C3: has another place than its base}}
    %a = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 64, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C3: reads a view that no call has made}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 64, 64>} : tensor<16xf32>
    // expected-error @+1 {{C4: writes bytes that it reads}}
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    // expected-error @+1 {{C5: reads value of tensor<16xf32> before it is written}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %c = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C5: reads value of tensor<16xf32> after value of tensor<16xf32> was written over it}}
    fsdp.cmd.aten "neg"(%a) to (%c) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C6: reaches past the end of a place}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {block_bytes = 32 : i64, blocks = 2 : i64, source_stride = 64 : i64, destination_stride = 32 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C6: its blocks lie over each other}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {block_bytes = 32 : i64, blocks = 2 : i64, source_stride = 32 : i64, destination_stride = 16 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C7: moves 64 bytes per rank, which its places of 64 and 64 bytes do not fit}}
    fsdp.cmd.collective all_gather %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C8: waits for event 0, which was not recorded before}}
    fsdp.cmd.wait 0
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    fsdp.cmd.record 0
    // expected-error @+1 {{C8: records event 0 for the second time}}
    fsdp.cmd.record 0
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C8: is on stream 1; there is one, 0}}
    fsdp.cmd.record 0 {stream = 1 : i64}
    return %x : tensor<16xf32>
  }
}

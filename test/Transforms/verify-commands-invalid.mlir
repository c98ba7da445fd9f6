// Tests that verify-commands refuses each constraint's breach by its number.
// RUN: fsdp-opt %s --split-input-file --fsdp-verify-commands -verify-diagnostics

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C1: is not a command; run --fsdp-lower-to-commands first}}
    %a = aten.call "neg"(%x) : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C2: has the place #fsdp.place<0, 320, 64>, which reaches past the end of its arena}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 320, 64>} : tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C2: needs 64 bytes, its place has 32}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 32>} : tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C2: differs from the state @n}}
    %a = fsdp.cmd.value state @n {place = #fsdp.place<0, 0, 4>} : tensor<i32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C3: has another place than its base}}
    %a = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
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

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
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

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
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

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
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

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C6: reaches past the end of a place}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 32, blocks = 2, source_stride = 64, destination_stride = 32>]}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C6: its blocks lie over each other}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 32, blocks = 2, source_stride = 32, destination_stride = 16>]}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
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

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C8: waits for event 0, which was not recorded before}}
    fsdp.cmd.wait 0
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
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

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // expected-error @+1 {{C8: is on stream 6; there are 6}}
    fsdp.cmd.record 0 {stream = 6 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C8: computes on stream 1, which is for collectives}}
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>, stream = 1 : i64} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // Two streams may run out of step, and so would the ranks.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, channel = 1 : i64, stream = 1 : i64}
    // expected-error @+1 {{C8: is on channel 1 and stream 2; another of that channel is on stream 1}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %b : tensor<16xf32> {count = 16 : i64, dtype = f32, channel = 1 : i64, stream = 2 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // Nothing waits for the sum.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    // expected-note @+1 {{that command is here, on stream 1}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C9: reads value of tensor<16xf32> without waiting for what writes it}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // An event of a stream says nothing of what comes behind its record.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    fsdp.cmd.record 0 {stream = 1 : i64}
    // expected-note @+1 {{that command is here, on stream 1}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    fsdp.cmd.wait 0
    // expected-error @+1 {{C9: reads value of tensor<16xf32> without waiting for what writes it}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // The reader on stream 1 may still run.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.record 0
    fsdp.cmd.wait 0 {stream = 1 : i64}
    // expected-note @+1 {{that command is here, on stream 1}}
    fsdp.cmd.collective all_reduce %a : tensor<16xf32> to %b : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    %c = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C10: writes value of tensor<16xf32> without waiting for what reads these bytes}}
    fsdp.cmd.aten "neg"(%x) to (%c) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // So may what writes there.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-note @+1 {{that command is here, on stream 1}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C10: writes value of tensor<16xf32> without waiting for what wrote these bytes}}
    fsdp.cmd.aten "neg"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C11: lies outside the value it is part of}}
    %b = fsdp.cmd.value part of %a : tensor<16xf32> {place = #fsdp.place<0, 192, 32>} : tensor<8xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %t = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 64, 64>} : tensor<16xf32>
    // expected-error @+1 {{C11: is part of what is itself a view, a part or a state}}
    %b = fsdp.cmd.value part of %t : tensor<16xf32> {place = #fsdp.place<0, 64, 32>} : tensor<8xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // The bucket is zeroed after one of its members was computed.
    %w = fsdp.cmd.value {place = #fsdp.place<0, 128, 128>} : tensor<32xf32>
    %a = fsdp.cmd.value part of %w : tensor<32xf32> {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C11: writes value of tensor<32xf32> over value of tensor<16xf32>, which is a part of the same value}}
    fsdp.cmd.copy to %w : tensor<32xf32> {pieces = [#fsdp.piece<source = -1, bytes = 128>]}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    // Two members in one place.
    %w = fsdp.cmd.value {place = #fsdp.place<0, 128, 128>} : tensor<32xf32>
    %a = fsdp.cmd.value part of %w : tensor<32xf32> {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value part of %w : tensor<32xf32> {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C11: writes value of tensor<16xf32> over value of tensor<16xf32>, which is a part of the same value}}
    fsdp.cmd.aten "neg"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 32>} : tensor<8xf32>
    // expected-error @+1 {{C14: divides by 1.000000e+00, not 2.000000e+00}}
    fsdp.cmd.collective reduce_scatter %x : tensor<16xf32> to %a : tensor<8xf32> {count = 8 : i64, dtype = f32}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 192, 64>} : tensor<16xf32>
    // A sum is divided as gradients are, or not at all.
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, divisor = 2.0 : f64}
    // expected-error @+1 {{C14: divides by 2.000000e+00, not 1.000000e+00}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %b : tensor<16xf32> {count = 16 : i64, dtype = f32, divisor = 2.0 : f64, op = #fsdp<reduce_op max>}
    return %x : tensor<16xf32>
  }
}

// -----

// expected-error @+1 {{C13: arena 0 has 320 bytes, its places end at 128}}
module attributes {fsdp.arenas = array<i64: 320, 0, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    // expected-error @+1 {{C12: writes the window, which only mapped gathers do}}
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {count = 1024 : i64, dtype = f32, stream = 1 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    // expected-error @+1 {{C12: is mapped, but does not gather a state into arena 1}}
    fsdp.cmd.collective all_gather %g : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    %v = fsdp.cmd.value state @v {place = #fsdp.place<0, 4096, 4096>} : tensor<1024xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C12: shows the state @v where another is shown}}
    fsdp.cmd.collective all_gather %v : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 16384, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    %again = fsdp.cmd.value {place = #fsdp.place<1, 8192, 8192>} : tensor<2048xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C12: shows the state @w at #fsdp.place<1, 8192, 8192>, and another gather at #fsdp.place<1, 0, 8192>}}
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %again : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    // Another rank may not have read yet: the gather came before the reader.
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    fsdp.cmd.record 0 {stream = 1 : i64}
    fsdp.cmd.wait 0
    %s = fsdp.cmd.value {place = #fsdp.place<0, 12416, 4>} : tensor<f32>
    // expected-note @+1 {{that command is here, on stream 0}}
    fsdp.cmd.aten "sum"(%all) to (%s) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<2048xf32>) -> tensor<f32>
    // expected-error @+1 {{C12: writes the state @w, which other ranks may still read: no collective lies between; use gather=copy}}
    fsdp.cmd.update @rule @w, %g [] : tensor<1024xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    // Another rank may be in the program before.
    // expected-error @+1 {{C12: writes the state @w, which other ranks may still read: no collective lies between; use gather=copy}}
    fsdp.cmd.update @rule @w, %g [] : tensor<1024xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    fsdp.cmd.record 0 {stream = 1 : i64}
    fsdp.cmd.wait 0
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 12544, 8192, 0>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 0, 4096>}
  fsdp.state @v parameter : tensor<1024xf32> {trainable, mapped, fsdp.place = #fsdp.place<0, 4096, 4096>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 12288, 64>}, %g: tensor<1024xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 8192, 4096>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 4096>} : tensor<1024xf32>
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 8192>} : tensor<2048xf32>
    // What was gathered is gone.
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<2048xf32> {mapped, count = 1024 : i64, dtype = f32, stream = 1 : i64}
    fsdp.cmd.record 0 {stream = 1 : i64}
    fsdp.cmd.wait 0
    fsdp.cmd.record 1
    fsdp.cmd.wait 1 {stream = 2 : i64}
    %y = fsdp.cmd.value {place = #fsdp.place<0, 12352, 64>} : tensor<16xf32>
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %y : tensor<16xf32> {count = 16 : i64, dtype = f32, channel = 1 : i64, stream = 2 : i64}
    fsdp.cmd.record 2 {stream = 2 : i64}
    fsdp.cmd.wait 2
    fsdp.cmd.update @rule @w, %g [] : tensor<1024xf32>
    %s = fsdp.cmd.value {place = #fsdp.place<0, 12416, 4>} : tensor<f32>
    // expected-error @+1 {{C5: reads value of tensor<2048xf32> after state @w was written over it}}
    fsdp.cmd.aten "sum"(%all) to (%s) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<2048xf32>) -> tensor<f32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %h = fsdp.cmd.value {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    // A copy to the host has a stream of its own, and one from it another.
    // expected-error @+1 {{C8: copies on stream 4, which is not for copies of its direction}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>], stream = 4 : i64}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %h = fsdp.cmd.value {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    // expected-note @+1 {{that command is here, on stream 5}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>], stream = 5 : i64}
    // expected-error-re @+1 {{C9: reads value of {{.*}} without waiting for what writes it}}
    fsdp.cmd.copy from %h : tensor<16xf32> to %x : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %h = fsdp.cmd.value {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %x : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    // expected-error @+1 {{C15: uses memory of the device and of the host}}
    fsdp.cmd.aten "neg"(%h) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %h = fsdp.cmd.value {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %x : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    // expected-error @+1 {{C15: exchanges memory of the host}}
    fsdp.cmd.collective all_reduce %h : tensor<16xf32> to %x : tensor<16xf32> {count = 16 : i64, dtype = f32}
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 128>, fsdp.device = "cuda"} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @n buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 0, 4>}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    %h = fsdp.cmd.value {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    // What is in the host's memory runs on the host.
    fsdp.cmd.copy from %x : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    %i = fsdp.cmd.value {place = #fsdp.place<2, 64, 64>} : tensor<16xf32>
    fsdp.cmd.aten "to_mkldnn"(%h) to (%i) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C16: runs "to_mkldnn", of which this PyTorch has no kernel for GPUs}}
    fsdp.cmd.aten "to_mkldnn"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 192, 0, 0>, fsdp.device = "cuda"} {
  shard.grid @mesh(shape = 1) {fsdp.dims = ["shard"]}
  func.func @step(%x: tensor<16xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %a = fsdp.cmd.value {place = #fsdp.place<0, 64, 64>} : tensor<16xf32>
    %n = fsdp.cmd.value {place = #fsdp.place<0, 128, 4>} : tensor<f32>
    %lr = fsdp.learning_rate 0
    // In memory is where it belongs.
    fsdp.cmd.aten "scalar_tensor"(%lr) to (%n) {slots = array<i32: 1>, args = {dtype = f32}, results = array<i32: 0>} : (f64) -> tensor<f32>
    // expected-error @+1 {{C19: gives "mul.Scalar" a number that changes between steps; run --fsdp-hold-scalars first}}
    fsdp.cmd.aten "mul.Scalar"(%x, %lr) to (%a) {slots = array<i32: 1, 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>, f64) -> tensor<16xf32>
    return %x : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 448, 0, 0>} {
  shard.grid @mesh(shape = 4) {fsdp.dims = ["shard"]}
  func.func @step(%x: tensor<64xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 256>}) -> (tensor<64xf32> {fsdp.output = "loss"}) {
    %k = fsdp.cmd.value {place = #fsdp.place<0, 256, 128>} : tensor<32xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C17: keeps a part for each of 3 neighbours of 4}}
    fsdp.cmd.copy from %x : tensor<64xf32> to %k : tensor<32xf32> {pieces = [#fsdp.piece<bytes = 128, owners = 3>]}
    fsdp.cmd.collective all_gather %k : tensor<32xf32> to %x : tensor<64xf32> {count = 32 : i64, dtype = f32, ranks = 2 : i64}
    return %x : tensor<64xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<16xf32> {trainable, fsdp.place = #fsdp.place<2, 0, 64>}
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %p : tensor<*xf32>
  }
  func.func @step(%g: tensor<16xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    %copy = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %w : tensor<16xf32> to %copy : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    // expected-error @+1 {{C18: the copy of @w that is updated is not copied back}}
    fsdp.cmd.update @rule @w, %g [] staged %copy : tensor<16xf32> : tensor<16xf32>
    return %g : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 448, 0, 0>} {
  shard.grid @mesh(shape = 4) {fsdp.dims = ["shard"]}
  func.func @step(%x: tensor<64xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 256>}) -> (tensor<64xf32> {fsdp.output = "loss"}) {
    %k = fsdp.cmd.value {place = #fsdp.place<0, 256, 128>} : tensor<32xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C17: keeps 64 bytes, which are not one of 2 equal parts of 256, alone in their place}}
    fsdp.cmd.copy from %x : tensor<64xf32> to %k : tensor<32xf32> {pieces = [#fsdp.piece<bytes = 64, owners = 2>]}
    fsdp.cmd.collective all_gather %k : tensor<32xf32> to %x : tensor<64xf32> {count = 32 : i64, dtype = f32, ranks = 2 : i64}
    return %x : tensor<64xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<16xf32> {trainable, fsdp.place = #fsdp.place<2, 0, 64>}
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %p : tensor<*xf32>
  }
  func.func @step(%g: tensor<16xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    %copy = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %w : tensor<16xf32> to %copy : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    // expected-error @+1 {{C18: is not one of, in this order, the copy of @w that is updated, its updates and the copy back}}
    fsdp.cmd.copy from %copy : tensor<16xf32> to %w : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    fsdp.cmd.update @rule @w, %g [] staged %copy : tensor<16xf32> : tensor<16xf32>
    return %g : tensor<16xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 448, 0, 0>} {
  shard.grid @mesh(shape = 4) {fsdp.dims = ["shard"]}
  func.func @step(%x: tensor<64xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 256>}) -> (tensor<64xf32> {fsdp.output = "loss"}) {
    %k = fsdp.cmd.value {place = #fsdp.place<0, 256, 128>} : tensor<32xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 384, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %x : tensor<64xf32> to %k : tensor<32xf32> {pieces = [#fsdp.piece<bytes = 128, source_offset = 128>]}
    // expected-error @+1 {{C17: is among 2 neighbours; only a gather of what as many kept is}}
    fsdp.cmd.collective all_gather %k : tensor<32xf32> to %x : tensor<64xf32> {count = 32 : i64, dtype = f32, ranks = 2 : i64}
    return %x : tensor<64xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 448, 0, 0>} {
  shard.grid @mesh(shape = 4) {fsdp.dims = ["shard"]}
  func.func @step(%x: tensor<64xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 256>}) -> (tensor<64xf32> {fsdp.output = "loss"}) {
    %k = fsdp.cmd.value {place = #fsdp.place<0, 256, 128>} : tensor<32xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 384, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %x : tensor<64xf32> to %k : tensor<32xf32> {pieces = [#fsdp.piece<bytes = 128, owners = 2>]}
    // expected-error @+1 {{C17: is among 4 neighbours; only a gather of what as many kept is}}
    fsdp.cmd.collective all_gather %k : tensor<32xf32> to %x : tensor<64xf32> {count = 32 : i64, dtype = f32, ranks = 4 : i64}
    return %x : tensor<64xf32>
  }
}

// -----

module attributes {fsdp.arenas = array<i64: 320, 0, 64>} {
  shard.grid @mesh(shape = 2) {fsdp.dims = ["shard"]}
  fsdp.state @w parameter : tensor<16xf32> {trainable, fsdp.place = #fsdp.place<2, 0, 64>}
  func.func private @rule(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
    return %p : tensor<*xf32>
  }
  func.func @step(%g: tensor<16xf32> {fsdp.input = "g", fsdp.place = #fsdp.place<0, 64, 64>}) -> (tensor<16xf32> {fsdp.output = "loss"}) {
    %w = fsdp.cmd.value state @w {place = #fsdp.place<2, 0, 64>} : tensor<16xf32>
    %copy = fsdp.cmd.value {place = #fsdp.place<0, 128, 64>} : tensor<16xf32>
    // expected-error @+1 {{C18: writes @w, but not what its updates have changed}}
    fsdp.cmd.copy from %g : tensor<16xf32> to %w : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    return %g : tensor<16xf32>
  }
}

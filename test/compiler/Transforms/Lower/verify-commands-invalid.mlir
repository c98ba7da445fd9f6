// Tests that what the plan's checker refuses is an error at its op, by the constraint's number. Each part is what
// Inputs/commands.mlir, a valid step, is given in addition.
// RUN: %python %S/../Inputs/fill.py %S/../Inputs/commands.mlir %s > %t.mlir
// RUN: fsdp-opt %t.mlir --split-input-file --fsdp-verify-commands -verify-diagnostics

// What no plan can hold is an error of its own.
    // expected-error @+1 {{is not a command; run fsdp-opt --fsdp-pipeline (or --fsdp-lower) first [FSDP-E0503]}}
    %a = aten.call "neg"(%x) : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{PyTorch has no operator "nega"}}
    fsdp.cmd.aten "nega"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{has an output that is none of its results}}
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: -1>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    // expected-error @+1 {{names the unit "u", which does not exist}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %x : tensor<16xf32> {count = 16 : i64, dtype = f32, unit = "u"}
// -----
top:  // expected-error @+1 {{is a rule without a body of one block}}
top:  func.func private @r(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule}
// -----
top:  // expected-error @+1 {{is a program of several blocks; commands are a list}}
top:  func.func @blocks() {
top:    return
top:  ^end:
top:    return
top:  }
// -----
top:  // expected-error @+1 {{has true as fsdp.live_bytes; it is an i64}}
top:  func.func @other() attributes {fsdp.live_bytes = true} {
top:    return
top:  }

// -----
    // expected-error @+1 {{C1: collective: mesh dimension 1 does not exist, there are 1}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %x : tensor<16xf32> {count = 16 : i64, dtype = f32, axes = array<i64: 1>}
// -----
    // expected-error @+1 {{C1: event 4294967295 does not exist, there are 0}}
    fsdp.cmd.record 4294967296
// -----
    // expected-error @+1 {{C2: its place reaches past the end of the device arena}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 20480, 64>} : tensor<16xf32>
// -----
    // expected-error @+1 {{C1: arena 4294967295 does not exist}}
    %a = fsdp.cmd.value {place = #fsdp.place<4294967296, 0, 64>} : tensor<16xf32>
// -----
    // expected-error @+1 {{C2: needs 64 bytes, its place has 32}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 32>} : tensor<16xf32>
// -----
    // expected-error @+1 {{C2: differs from state 'n'}}
    %a = fsdp.cmd.value state @n {place = #fsdp.place<0, 8192, 4>} : tensor<i32>
// -----
top:  // expected-error @+1 {{C2: shares bytes with state 'n'}}
top:  fsdp.state @m buffer : tensor<f32> {persistent, fsdp.place = #fsdp.place<0, 8192, 4>}
// -----
    // expected-error @+1 {{C3: has another place than the value that it is a view of}}
    %a = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
// -----
    %a = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 8256, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C3: aten::neg: reads value 7 (float32 [16]), a view that is not made yet}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 8256, 64>} : tensor<16xf32>
    // expected-error @+1 {{C4: aten::neg: value 7 (float32 [16]) shares bytes with what the command also uses}}
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    // expected-error @+1 {{C5: aten::neg: reads value 7 (float32 [16]) before it is written}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %c = fsdp.cmd.value {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C5: aten::neg: reads value 7 (float32 [16]) after value 8 (float32 [16]) was written over it}}
    fsdp.cmd.aten "neg"(%a) to (%c) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    // What was gathered is gone with the update.
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
    %y = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %y : tensor<16xf32> {count = 16 : i64, dtype = f32}
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
    // expected-error @+1 {{C5: aten::sum: reads value 7 (float32 [4096]) after state 'w' was written over it}}
    fsdp.cmd.aten "sum"(%all) to (%loss) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<4096xf32>) -> tensor<f32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C6: copy: reaches past the end of a place of 64 bytes}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 32, blocks = 2, source_stride = 64, destination_stride = 32>]}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C6: copy: its blocks lie over each other}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 32, blocks = 2, source_stride = 32, destination_stride = 16>]}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C7: collective: its destination has 64 bytes, which is not what it receives}}
    fsdp.cmd.collective all_gather %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32}
// -----
    fsdp.cmd.record 0 {stream = 1 : i64}
    // expected-error @+1 {{C8: waits for an event that was not recorded before}}
    fsdp.cmd.wait 1
    fsdp.cmd.record 1
// -----
    fsdp.cmd.record 0
    // expected-error @+1 {{C8: records an event for the second time}}
    fsdp.cmd.record 0
// -----
    // expected-error @+1 {{C8: runs on stream 6, there are 6}}
    fsdp.cmd.record 0 {stream = 6 : i64}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C8: computes on stream 1, which is for collectives}}
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>, stream = 1 : i64} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    // Two streams may run out of step, and so would the ranks.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C8: collective: channel 0 is used by streams 1 and 0, so ranks could disagree on the order}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %b : tensor<16xf32> {count = 16 : i64, dtype = f32}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<2, 64, 64>} : tensor<16xf32>
    // expected-error @+1 {{C8: copy: runs on stream 4, which is not for copies of its direction}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>], stream = 4 : i64}
// -----
    // Nothing waits for the sum: an event says nothing of what comes behind its record.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    fsdp.cmd.record 0 {stream = 1 : i64}
    // expected-note @+1 {{that command is here}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    fsdp.cmd.wait 0
    // expected-error @+1 {{C9: aten::neg: reads value 7 (float32 [16]), which command 2 (}}
    fsdp.cmd.aten "neg"(%a) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<2, 64, 64>} : tensor<16xf32>
    // expected-note @+1 {{that command is here}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>], stream = 5 : i64}
    // expected-error @+1 {{C9: copy: reads value 7 (float32 [16]), which command 1 (}}
    fsdp.cmd.copy from %a : tensor<16xf32> to %x : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
// -----
    // The reader on stream 1 may still run.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    %c = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    fsdp.cmd.record 0
    fsdp.cmd.wait 0 {stream = 1 : i64}
    // expected-note @+1 {{that command is here}}
    fsdp.cmd.collective all_reduce %a : tensor<16xf32> to %b : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C10: aten::neg: writes value 9 (float32 [16]) where command 4 (}}
    fsdp.cmd.aten "neg"(%x) to (%c) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    // So may what writes there.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-note @+1 {{that command is here}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, stream = 1 : i64}
    // expected-error @+1 {{C10: aten::neg: writes value 8 (float32 [16]) where command 1 (}}
    fsdp.cmd.aten "neg"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C11: reaches out of the value that it is a part of}}
    %b = fsdp.cmd.value part of %a : tensor<16xf32> {place = #fsdp.place<0, 16448, 32>} : tensor<8xf32>
// -----
    %a = fsdp.cmd.value of %x : tensor<16xf32> {place = #fsdp.place<0, 8256, 64>} : tensor<16xf32>
    // expected-error @+1 {{C11: is a part of a view, of a part or of a state}}
    %b = fsdp.cmd.value part of %a : tensor<16xf32> {place = #fsdp.place<0, 8256, 32>} : tensor<8xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 128>} : tensor<32xf32>
    %b = fsdp.cmd.value part of %a : tensor<32xf32> {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C11: shares bytes with value 8 (float32 [16]), another part of value 7}}
    %c = fsdp.cmd.value part of %a : tensor<32xf32> {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
// -----
    // The bucket is zeroed after one of its members was computed.
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 128>} : tensor<32xf32>
    %b = fsdp.cmd.value part of %a : tensor<32xf32> {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    fsdp.cmd.aten "neg"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C11: copy: writes value 7 (float32 [32]) over value 8 (float32 [16]), which is a part of it}}
    fsdp.cmd.copy to %a : tensor<32xf32> {pieces = [#fsdp.piece<source = -1, bytes = 128>]}
// -----
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    // expected-error @+1 {{C12: collective: writes value 7 (float32 [4096]), which is in the window}}
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<4096xf32> {count = 1024 : i64, dtype = f32}
// -----
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    // expected-error @+1 {{C12: mapped gather: does not gather a flat state into the window}}
    fsdp.cmd.collective all_gather %g : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
// -----
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
    // expected-error @+1 {{C12: mapped gather: shows 'v' where 'w' is shown}}
    fsdp.cmd.collective all_gather %v : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
// -----
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    %again = fsdp.cmd.value {place = #fsdp.place<1, 16384, 16384>} : tensor<4096xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
    // expected-error @+1 {{C12: mapped gather: shows 'w' in another range of the window than before}}
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %again : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
// -----
    // Another rank may not have read yet: the gather came before the reader.
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
    // expected-note @+1 {{that command is here}}
    fsdp.cmd.aten "sum"(%all) to (%loss) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<4096xf32>) -> tensor<f32>
    // expected-error-re @+1 {{C12: writes state 'w' where command 2 ({{.*}}) reads, with no collective in between that tells it of all ranks; use gather=copy}}
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
// -----
    // Another rank may be in the program before.
    %all = fsdp.cmd.value {place = #fsdp.place<1, 0, 16384>} : tensor<4096xf32>
    // expected-error @+1 {{C12: writes state 'w' where the program before reads, with no collective in between that tells it of all ranks}}
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
    fsdp.cmd.collective all_gather %w : tensor<1024xf32> to %all : tensor<4096xf32> {mapped, count = 1024 : i64, dtype = f32}
// -----
module:// expected-error @+1 {{C13: arena 'device': has 20480 bytes, its places take 12480}}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 16>} : tensor<4xf32>
    // expected-error @+1 {{C14: collective: divides by 1, not 4}}
    fsdp.cmd.collective reduce_scatter %x : tensor<16xf32> to %a : tensor<4xf32> {count = 4 : i64, dtype = f32, channel = 1 : i64, stream = 2 : i64}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C26: collective: takes a maximum of what is no maximum on each rank}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32, op = #fsdp<reduce_op max>}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C15: aten::neg: uses memory of the device and of the host}}
    fsdp.cmd.aten "neg"(%h) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
    // expected-error @+1 {{C15: collective: exchanges memory of the host}}
    fsdp.cmd.collective all_reduce %h : tensor<16xf32> to %x : tensor<16xf32> {count = 16 : i64, dtype = f32}
// -----
    // expected-error @+1 {{C17: copy: has 3 owners, which do not divide the 4 shards}}
    fsdp.cmd.copy from %g : tensor<1024xf32> to %x : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64, owners = 3>]}
// -----
    // expected-error @+1 {{C17: copy: keeps 64 bytes in a place of 64, which is not one of 2 equal parts of 4096}}
    fsdp.cmd.copy from %g : tensor<1024xf32> to %x : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64, owners = 2>]}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 128>} : tensor<32xf32>
    // expected-error @+1 {{C17: collective: is among 2 neighbours; only a gather of what as many kept is}}
    fsdp.cmd.collective all_gather %x : tensor<16xf32> to %a : tensor<32xf32> {count = 16 : i64, dtype = f32, ranks = 2 : i64}
// -----
    // expected-error @+1 {{C18: aten::neg: writes value 2 (w), which only updates may write}}
    fsdp.cmd.aten "neg"(%g) to (%w) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<1024xf32>) -> tensor<1024xf32>
// -----
    // expected-error @+1 {{C18: writes a parameter, which only updates may write, and copies of what they have changed}}
    fsdp.cmd.copy from %x : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %h : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    // expected-error @+1 {{C18: 'h': is not copied back after its update}}
    fsdp.cmd.update @sgd @h, %x [] staged %a : tensor<16xf32> : tensor<16xf32>
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    fsdp.cmd.copy from %h : tensor<16xf32> to %a : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    // expected-error @+1 {{C18: copies a staged parameter again, or not in the order: there, its updates, back}}
    fsdp.cmd.copy from %a : tensor<16xf32> to %h : tensor<16xf32> {pieces = [#fsdp.piece<bytes = 64>]}
    fsdp.cmd.update @sgd @h, %x [] staged %a : tensor<16xf32> : tensor<16xf32>
// -----
attributes:, fsdp.device = "cuda"
top:  fsdp.training {hyperparameters = [#fsdp.hyperparameter<"lr" of 0 = 1.0e-02 : f64>]}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 4>} : tensor<f32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16448, 64>} : tensor<16xf32>
    %lr = fsdp.hyperparameter "lr" of 0
    // In memory is where it belongs.
    fsdp.cmd.aten "scalar_tensor"(%lr) to (%a) {slots = array<i32: 1>, args = {dtype = f32}, results = array<i32: 0>} : (f64) -> tensor<f32>
    // expected-error @+1 {{C19: aten::mul: takes a number of the step, which a GPU has in memory alone; run --fsdp-hold-scalars first}}
    fsdp.cmd.aten "mul.Scalar"(%x, %lr) to (%b) {slots = array<i32: 1, 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>, f64) -> tensor<16xf32>
// -----
attributes:, fsdp.device = "cuda"
    %a = fsdp.cmd.value {place = #fsdp.place<2, 64, 64>} : tensor<16xf32>
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // What is in the host's memory runs on the host.
    fsdp.cmd.aten "to_mkldnn"(%h) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
    // expected-error @+1 {{C16: runs "to_mkldnn", of which this PyTorch has no kernel for GPUs}}
    fsdp.cmd.aten "to_mkldnn"(%x) to (%b) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>
// -----
attributes:, fsdp.device = "cuda"
    %b = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C16: runs "fsdp_mlir::mm.onednn", of which this PyTorch has no kernel for GPUs}}
    fsdp.cmd.aten "fsdp_mlir::mm.onednn"(%x, %x) to (%b) {slots = array<i32: 1, 1>, args = {}, results = array<i32: 0>} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
// -----
top:  // expected-error @+1 {{has a number of epochs and one of steps; give one}}
top:  fsdp.training {epochs = 1 : i64, steps = 2 : i64}
// -----
top:  // expected-error @+1 {{C21: its first output is not 'loss'}}
top:  func.func @other() {
top:    return
top:  }
// -----
top:  // expected-error @+1 {{C22: local shape [4] is not one of 4 parts of [4096]}}
top:  fsdp.state @u parameter : tensor<4xf32> {trainable, global = tensor<4096xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, fsdp.place = #fsdp.place<0, 12416, 16>}
// -----
top:  // expected-error @+1 {{C23: step 0 of its recipe: draws from an empty range}}
top:  fsdp.state @u parameter : tensor<4xf32> {trainable, init = [#fsdp.init<uniform, values = [1.0, 0.0]>], fsdp.place = #fsdp.place<0, 12416, 16>}
// -----
top:  // expected-error @+1 {{C24: result 0 changes its dtype}}
top:  func.func private @r(%p: tensor<*xf32>, %g: tensor<*xf16>) -> tensor<*xf16> attributes {fsdp.rule} {
top:    return %g : tensor<*xf16>
top:  }
// -----
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
    // expected-error @+1 {{C25: updates 'w' for the second time}}
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
// -----
    fsdp.cmd.update @sgd @w, %g [] : tensor<1024xf32>
    // expected-error @+1 {{C26: updates 'v' by another scale, or on another condition, than others before it}}
    fsdp.cmd.update @sgd @v, %g [] scale %n : tensor<f32> : tensor<1024xf32>
// -----
top:  fsdp.training {accumulate = 2 : i64}
module:// expected-error @+2 {{C27: micro-batches: a step has 2, the plan no program 'accumulate'}}
module:// expected-error @+1 {{C13: arena 'device': has 20480 bytes, its places take 12480}}
// -----
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @-1 {{C28: nobody reads what arrives here}}
    fsdp.cmd.collective all_reduce %x : tensor<16xf32> to %a : tensor<16xf32> {count = 16 : i64, dtype = f32}
// -----
top:  // expected-error @+1 {{C29: says that 12416 bytes of the device arena are in use at one time, but they are 16512}}
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 4096>} : tensor<1024xf32>
    fsdp.cmd.aten "neg"(%g) to (%a) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<1024xf32>) -> tensor<1024xf32>
// -----
    // Arenas are as large as their places.
    %0 = fsdp.cmd.value {place = #fsdp.place<0, 16448, 4032>} : tensor<1008xf32>
    %1 = fsdp.cmd.value {place = #fsdp.place<1, 0, 32768>} : tensor<8192xf32>
    %2 = fsdp.cmd.value {place = #fsdp.place<2, 64, 448>} : tensor<112xf32>
    // expected-error @+1 {{C30: calls aten::zero_, which writes its argument 'self', and results are all that a call may write; let the step compute it by other operators}}
    fsdp.cmd.aten "zero_"(%x) to () {slots = array<i32: 1>, args = {}, results = array<i32: -1>} : (tensor<16xf32>) -> ()
// -----
    // Arenas are as large as their places.
    %0 = fsdp.cmd.value {place = #fsdp.place<0, 16448, 4032>} : tensor<1008xf32>
    %1 = fsdp.cmd.value {place = #fsdp.place<1, 0, 32768>} : tensor<8192xf32>
    %2 = fsdp.cmd.value {place = #fsdp.place<2, 64, 448>} : tensor<112xf32>
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C30: calls aten::native_batch_norm, which writes running statistics; let the step compute it by other operators}}
    fsdp.cmd.aten "native_batch_norm"(%x, %x, %x) to (%a) {slots = array<i32: 1, 0, 0, 1, 1>, args = {training = true, momentum = 0.1, eps = 0.1}, results = array<i32: 0, -1, -1>} : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
// -----
    // Arenas are as large as their places.
    %0 = fsdp.cmd.value {place = #fsdp.place<0, 16448, 4032>} : tensor<1008xf32>
    %1 = fsdp.cmd.value {place = #fsdp.place<1, 0, 32768>} : tensor<8192xf32>
    %2 = fsdp.cmd.value {place = #fsdp.place<2, 64, 448>} : tensor<112xf32>
    %a = fsdp.cmd.value {place = #fsdp.place<0, 16384, 64>} : tensor<16xf32>
    // expected-error @+1 {{C31: aten::clone: argument 'memory_format' of type MemoryFormat? is given 1000}}
    fsdp.cmd.aten "clone"(%x) to (%a) {slots = array<i32: 1>, args = {memory_format = 1000}, results = array<i32: 0>} : (tensor<16xf32>) -> tensor<16xf32>

// The passes of fsdp-lower, scheduled to commands, in the order of the pipeline.

#ifndef FSDP_LOWER_PASSES_TD
#define FSDP_LOWER_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def AssignStreams : ModulePass<"fsdp-assign-streams"> {
  let summary = "Says on which stream each op runs";
  let description = [{
    Input IR: scheduled.

    Output IR: `fsdp.stream` on every op of a program that will be a command:
    all-gathers are on stream 1, reduce-scatters on stream 2, sums over replicas
    on stream 3, copies from the host on stream 4, copies to it on stream 5,
    everything else, waits and copies too, on stream 0. What only a gather or an
    offload reads is waited for on its stream. `streams=1` puts all on stream 0.

    What holds: commands of one stream run in the order of the block.

    Why: a collective runs beside compute, and a gather beside a reduction. This
    pass alone decides which op runs where. One stream is the baseline.

    Input:

    ```mlir
    // fsdp-opt --fsdp-assign-streams
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    func.func @step(%a: tensor<64xui8>) -> tensor<128xui8> {
      %f = fsdp.all_gather_start %a {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
      %w = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
      %n = aten.call "neg"(%w) : (tensor<128xui8>) -> tensor<128xui8>
      return %n : tensor<128xui8>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    func.func @step(%arg0: tensor<64xui8>) -> tensor<128xui8> {
      %0 = fsdp.all_gather_start %arg0 {fsdp.stream = 1 : i64, region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> <tensor<128xui8>>
      %1 = fsdp.wait %0 {fsdp.stream = 0 : i64} : <tensor<128xui8>>
      %2 = aten.call "neg"(%1) {fsdp.stream = 0 : i64} : (tensor<128xui8>) -> tensor<128xui8>
      return %2 : tensor<128xui8>
    }
    ```
  }];
  let options = [StreamsOption];
}

def PlanMemory : ModulePass<"fsdp-plan-memory"> {
  let summary = "Gives every value and state its bytes";
  let description = [{
    Input IR: ops have streams.

    Output IR: `fsdp.place` on states and on programs' arguments, `fsdp.places`
    (one per result; `unit` where a result is no memory) on ops, the sizes of
    the arenas as `fsdp.arenas` on the module, and `fsdp.live_bytes` on programs:
    the largest sum of bytes in use at one time, states included, each rounded
    up to 64, below which no placement can be. In front of a pack or a store, an
    `aten.call "clone"` makes contiguous what is not all of a value's bytes in
    row-major order.

    What holds: states lie one after the other, from the start of arena 0 or, on
    the host, of arena 2. States that mapped gathers show come first, at whole
    pages, and each has one range of arena 1 in all programs. Every program uses
    arenas 0 and 2 behind the states. The result of an offload is in arena 2, and
    calls compute where their operands are. Places start at multiples of 64
    bytes. A value that is read later is never overwritten. A collective uses its
    source and its destination from its start to its wait.

    A view has the place of the value it looks into. A load has its state's
    place; where a program reads it after it has written the state, it is a copy.
    A store's value is computed at the state's place if nothing reads the old
    value any more. A member of a pack of one block is computed in the bucket
    where that is possible, and a member that is unpacked from one block of a
    collective's result stays there: both are parts of the bucket's place.

    Why: nothing is allocated in a step, and the peak is a number.
    `algorithm=naive` gives each value bytes of its own. It is the baseline that
    `best` is compared with. Where `memory-budget-mib` holds for what is in use
    at one time, and not for the arena, a warning says by how much.

    Input:

    ```mlir
    // fsdp-opt --fsdp-plan-memory
    fsdp.state @w parameter : tensor<4xf32>
    func.func @step(%x: tensor<4xf32> {fsdp.input = "x"}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
      %w = fsdp.load @w : tensor<4xf32>
      %y = aten.call "add.Tensor"(%x, %w) {fsdp.stream = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
      %z = aten.call "neg"(%y) {fsdp.stream = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
      return %z : tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.arenas = array<i64: 192, 0, 0>} {
      fsdp.state @w parameter : tensor<4xf32> {fsdp.place = #fsdp.place<0, 0, 16>}
      func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 16>}) -> (tensor<4xf32> {fsdp.output = "loss"}) attributes {fsdp.live_bytes = 192 : i64} {
        %0 = fsdp.load @w {fsdp.places = [#fsdp.place<0, 0, 16>]} : tensor<4xf32>
        %1 = aten.call "add.Tensor"(%arg0, %0) {fsdp.places = [#fsdp.place<0, 128, 16>], fsdp.stream = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        %2 = aten.call "neg"(%1) {fsdp.places = [#fsdp.place<0, 64, 16>], fsdp.stream = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
        return %2 : tensor<4xf32>
      }
    }
    ```
  }];
  let options = [AlgorithmOption, MemoryBudgetOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def LowerToCommands : ModulePass<"fsdp-lower-to-commands"> {
  let summary = "Rewrites programs into the closed set of commands";
  let description = [{
    Input IR: values and states have places.

    Output IR: programs consist of `fsdp.cmd` ops, step scalars and the return.
    A pack is a copy per member, and one that zeroes each gap; an unpack is a copy
    per member; a store is a copy into the state; a load is the state itself.

    A start on a side stream is five commands: record and wait make its stream
    follow the compute stream, then the collective, on its channel (0 gathers,
    1 reductions), then a record, for which its wait waits on stream 0.

    What holds: each `fsdp.cmd` op is one command of the plan. A record stands
    in front of its wait.

    Why: these are the commands that a rank executes, so the verifier can check
    them as such. An op that writes an operand in place is an error here, because
    the IR's values do not change.

    Input:

    ```mlir
    // fsdp-opt --fsdp-lower-to-commands
    module attributes {fsdp.arenas = array<i64: 256, 0, 0>} {
      fsdp.state @w parameter : tensor<4xf32> {fsdp.place = #fsdp.place<0, 0, 16>}
      func.func @step(%x: tensor<4xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 16>}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        %w = fsdp.load @w {fsdp.places = [#fsdp.place<0, 0, 16>]} : tensor<4xf32>
        %y = aten.call "add.Tensor"(%x, %w) {fsdp.places = [#fsdp.place<0, 128, 16>], fsdp.stream = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        return %y : tensor<4xf32>
      }
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.arenas = array<i64: 256, 0, 0>} {
      fsdp.state @w parameter : tensor<4xf32> {fsdp.place = #fsdp.place<0, 0, 16>}
      func.func @step(%arg0: tensor<4xf32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 64, 16>}) -> (tensor<4xf32> {fsdp.output = "loss"}) {
        %0 = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 16>} : tensor<4xf32>
        %1 = fsdp.cmd.value {place = #fsdp.place<0, 128, 16>} : tensor<4xf32>
        fsdp.cmd.aten "add.Tensor"(%arg0, %0) to(%1) {args = {}, results = array<i32: 0>, slots = array<i32: 1, 1>} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
        return %1 : tensor<4xf32>
      }
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def VerifyCommands : ModulePass<"fsdp-verify-commands"> {
  let summary = "Closes the commands phase";
  let description = [{
    Input and output IR: commands.

    The module becomes a plan in memory, and the plan's checker, which also
    checks a plan's file when it is loaded, decides whether it is valid. What it
    finds is an error at the op that it is of, with the constraint's number:
    [checker.md](checker.md) lists the constraints. A race has a note at the
    command that should have been waited for. What no plan can hold (an op that
    is no command, a name of nothing, arguments that an operator does not take)
    is an error without a number.

    The pass itself checks C16: what runs on a GPU has a kernel there.

    Input:

    ```mlir
    // fsdp-opt --fsdp-verify-commands
    module attributes {fsdp.arenas = array<i64: 128, 0, 0>} {
      func.func @step(%x: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.live_bytes = 128 : i64} {
        %y = fsdp.cmd.value {place = #fsdp.place<0, 64, 4>} : tensor<f32>
        fsdp.cmd.aten "neg"(%x) to (%y) {slots = array<i32: 1>, args = {}, results = array<i32: 0>} : (tensor<f32>) -> tensor<f32>
        return %y : tensor<f32>
      }
    }
    ```

    Output:

    ```mlir
    module attributes {fsdp.arenas = array<i64: 128, 0, 0>} {
      func.func @step(%arg0: tensor<f32> {fsdp.input = "x", fsdp.place = #fsdp.place<0, 0, 4>}) -> (tensor<f32> {fsdp.output = "loss"}) attributes {fsdp.live_bytes = 128 : i64} {
        %0 = fsdp.cmd.value {place = #fsdp.place<0, 64, 4>} : tensor<f32>
        fsdp.cmd.aten "neg"(%arg0) to(%0) {args = {}, results = array<i32: 0>, slots = array<i32: 1>} : (tensor<f32>) -> tensor<f32>
        return %0 : tensor<f32>
      }
    }
    ```
  }];
}

#endif // FSDP_LOWER_PASSES_TD

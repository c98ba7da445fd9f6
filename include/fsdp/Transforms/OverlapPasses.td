// The passes of fsdp-overlap that decide when collectives run, in the order of the
// pipeline. They follow those of BucketPasses.td.

#ifndef FSDP_OVERLAP_PASSES_TD
#define FSDP_OVERLAP_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def ConvertToAsync : ModulePass<"fsdp-convert-to-async"> {
  let summary = "Splits collectives and host copies into start and wait";
  let description = [{
    Input IR: collectives (`fsdp.all_gather`, `fsdp.reduce_scatter`,
    `fsdp.all_reduce`, `fsdp.all_to_all`), and copies from and to the host
    (`fsdp.fetch`, `fsdp.offload`).

    Output IR: each is a start and, right after it, its wait. What updates alone
    read, and what the step itself adds up, is waited for in front of its first
    reader.

    What holds: the starts have the order that the ops had.

    Why: from here on the order of the ops is the schedule; moving a start up
    or a wait down is overlap.

    It cannot fail: every such op has an asynchronous form.

    Input:

    ```mlir
    // fsdp-opt --fsdp-convert-to-async
    func.func @step(%a: tensor<64xui8>) -> tensor<128xui8> {
      %w = fsdp.all_gather %a {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> tensor<128xui8>
      return %w : tensor<128xui8>
    }
    ```

    Output:

    ```mlir
    func.func @step(%arg0: tensor<64xui8>) -> tensor<128xui8> {
      %0 = fsdp.all_gather_start %arg0 {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> <tensor<128xui8>>
      %1 = fsdp.wait %0 : <tensor<128xui8>>
      return %1 : tensor<128xui8>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def ScheduleOverlap : ModulePass<"fsdp-schedule-overlap"> {
  let summary = "Decides when collectives start and are waited for";
  let description = [{
    Input IR: each start is followed by its wait; gathers stand in front of
    their first readers, reductions after the last of their gradients.

    Output IR: the same ops in another order. A pack moves with its start, an
    unpack with its wait, the update with the wait of its gradient. Programs
    carry `fsdp.schedule`. `schedule` is one of

    - `overlap`: a cost model of the `cluster` (runtime/cost) predicts a
      timeline of compute, of gathers and of reductions. Each gather starts as
      late as it can and still be through when its first reader comes. Each
      reduction starts at once and is waited for when it should be through; the
      parameter is updated there, so that its gradient is freed. Only as many
      updates are held back as fill the wait for the last reductions. Several
      margins are tried, for collectives that take longer than predicted. The
      one with the least exposed communication is kept; of equals, the one with
      the least peak.
    - `fsdp2`: FSDP2's order. A gather starts after the wait of the one before
      it (`prefetch-*=1`). A reduction starts when its last gradient is there,
      in front of any gather of that place, once the reduction before it is
      waited for. Updates stay at the end.
    - `naive`: the order stays as it is. Depths and budget have no effect.

    `prefetch-forward=N` and `prefetch-backward=N` are depths: right after the
    wait of a unit's gather starts the gather of the unit that is used N units
    later. With 0 a gather starts at its first reader. A unit's own lists,
    `prefetch_forward` and `prefetch_backward`, win over depths and costs: at
    the unit's first op in forward, or in backward, after the wait for what
    that op reads, the gathers of the units that it names start, in the order of
    the list. Those that have started are left alone. Depths are for units
    without a list. In forward the unit after one with a list is gathered ahead
    too, as by FSDP2. With `memory-budget-mib` (states and
    everything a program owns at one time) `overlap` shortens flights where a
    program does not fit; where nothing is left to shorten, an error names what
    it needs.

    What is exchanged for an update alone (region `update`, and all-to-alls) comes
    after backward, in its order.

    What holds: compute keeps its order, and so do random ops. An op that read a
    state in front of its update still does. The starts of one kind are waited
    for in their order. A state that other ranks read in a window is updated
    after a collective that starts after the last read. Only the order changes,
    so all schedules give the same bits.

    Why: a collective beside compute costs nothing, but its buffers are memory.

    Input:

    ```mlir
    // fsdp-opt --fsdp-schedule-overlap
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<64xui8> {global = tensor<128xui8>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step(%x: tensor<64x64xf32> {fsdp.input = "x"}) -> (tensor<64x64xf32> {fsdp.output = "loss"}, tensor<128xui8>) {
      %w = fsdp.load @w : tensor<64xui8>
      %y = aten.call "mm"(%x, %x) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %f = fsdp.all_gather_start %w {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
      %a = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
      %b = aten.call "neg"(%a) : (tensor<128xui8>) -> tensor<128xui8>
      return %y, %b : tensor<64x64xf32>, tensor<128xui8>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<64xui8> {global = tensor<128xui8>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step(%arg0: tensor<64x64xf32> {fsdp.input = "x"}) -> (tensor<64x64xf32> {fsdp.output = "loss"}, tensor<128xui8>) attributes {fsdp.schedule = "overlap"} {
      %0 = fsdp.load @w : tensor<64xui8>
      %1 = fsdp.all_gather_start %0 {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> <tensor<128xui8>>
      %2 = aten.call "mm"(%arg0, %arg0) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
      %3 = fsdp.wait %1 : <tensor<128xui8>>
      %4 = aten.call "neg"(%3) : (tensor<128xui8>) -> tensor<128xui8>
      return %2, %4 : tensor<64x64xf32>, tensor<128xui8>
    }
    ```
  }];
  let options = [ScheduleOption, PrefetchForwardOption, PrefetchBackwardOption,
                 MemoryBudgetOption, ClusterOption];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def VerifyAsync : ModulePass<"fsdp-verify-async"> {
  let summary = "Closes the scheduled phase";
  let description = [{
    Input and output IR: scheduled. Each constraint is an error with its number:

    - A1: no collective is synchronous or in the `shard` dialect.
    - A2: each future is waited for exactly once.
    - A3: the wait is in the block of its start (and so after it).
    - A4: collectives stand in a program's first block, so that every rank
      starts the same ones in the same order.
    - A5: a gather has a piece, a reduction a row, per shard of the mesh; or the
      gather is among neighbours, and has a part of each.
    - A6: a collective's unit exists.
    - A7: a reduction divides its sum by its unit's divisor, which is the number
      of ranks where the unit has none of its own. Where there are replicas, the
      sum over them divides, and no other one does.
    - A8: a gather among neighbours reads an `fsdp.keep` for as many neighbours,
      of a gather over all shards.
    - A9: a copy into a state copies what that state's update gave, and its
      result is the state's memory.

    Input:

    ```mlir
    // fsdp-opt --fsdp-verify-async
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    func.func @step(%a: tensor<64xui8>) -> tensor<128xui8> {
      %f = fsdp.all_gather_start %a {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> !fsdp.future<tensor<128xui8>>
      %w = fsdp.wait %f : !fsdp.future<tensor<128xui8>>
      return %w : tensor<128xui8>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    func.func @step(%arg0: tensor<64xui8>) -> tensor<128xui8> {
      %0 = fsdp.all_gather_start %arg0 {region = #fsdp<region forward>, unit = ""} : tensor<64xui8> -> <tensor<128xui8>>
      %1 = fsdp.wait %0 : <tensor<128xui8>>
      return %1 : tensor<128xui8>
    }
    ```
  }];
}

#endif // FSDP_OVERLAP_PASSES_TD

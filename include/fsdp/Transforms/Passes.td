// The passes, in the order of the pipelines.

#ifndef FSDP_PASSES_TD
#define FSDP_PASSES_TD

include "mlir/Pass/PassBase.td"

// fsdp-shard: captured to sharded

def AssignUnits : Pass<"fsdp-assign-units", "::mlir::ModuleOp"> {
  let summary = "Decides which parameters are gathered and reduced together";
  let description = [{
    Input IR: captured. Where the model names its units, `fsdp.unit` ops and
    `unit` on every parameter that is not replicated: they are kept.

    Output IR: `fsdp.unit` ops in the order of their first use in @step, and
    `unit` on every parameter. Nothing else changes.

    What holds: units own parameters by name, never ops. Every parameter that is
    not replicated has one unit; the root owns what no other unit does, and what is reached from
    two units under different names (a tied weight).

    Why: a unit is one all-gather and one reduce-scatter, so units set how much
    is whole at once and how often ranks talk.

    `units` is one of
    - `auto`: each child with parameters of an outermost ModuleList or
      Sequential in which one class repeats;
    - `class:NAME`: each module of that class; the innermost owns;
    - a number: units of at least that many bytes of parameters, in the order
      of their use;
    - anything else: an extended regular expression that a module's whole path
      matches.
  }];
  let options = [Option<"units", "units", "std::string", "\"auto\"",
                        "auto, class:NAME, a number of bytes, or a regex over module paths">];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def ShardState : Pass<"fsdp-shard-state", "::mlir::ModuleOp"> {
  let summary = "Says how parameters and optimizer state are split over the mesh";
  let description = [{
    Input IR: parameters have units. `fsdp.mesh` on the module, where the model
    describes one, stands for the option.

    Output IR: `shard.grid @mesh`, and `sharding` on every parameter and its
    optimizer state. Types are still those of whole tensors. A mesh of one rank
    shards nothing, and a replicated parameter is never sharded.

    What holds: optimizer state is split as its parameter. Rules are pointwise,
    so that a part of a parameter may be updated alone; a rule that is not is an
    error. So are parameters that are not row-major and, with `dim0`, scalars.

    `shard-layout` is `dim0`, rows of each parameter apart, or `flat`: equal
    pieces of a unit's elements, which `fsdp-flatten-state` lays out.

    Why: the sharding is said once, as an attribute; all other passes read it.
  }];
  let options = [
    Option<"mesh", "mesh", "std::string", "\"\"", "number of ranks">,
    Option<"meshDims", "mesh-dims", "std::string", "\"shard\"",
           "names of the mesh's dimensions">,
    Option<"shardLayout", "shard-layout", "std::string", "\"dim0\"",
           "how parameters are cut: dim0 or flat">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::mlir::shard::ShardDialect"];
}

def InsertUnshard : Pass<"fsdp-insert-unshard", "::mlir::ModuleOp"> {
  let summary = "Makes parameters whole in front of each of their readers";
  let description = [{
    Input IR: states have shardings.

    Output IR: each reader of a sharded parameter reads an `fsdp.unshard` of
    its own. Where the unit reshards after forward, readers in backward get the
    region "backward", and view chains that forward computed from a parameter
    are repeated for them.

    What holds: between forward and backward nothing keeps a resharded
    parameter whole: neither its gather nor a view of it.

    Why: as in FSDP2, forward's whole parameters are freed before backward
    gathers them again. `auto` keeps the root's, which backward needs at once.
    What a unit says itself (`reshard`) wins.
  }];
  let options = [Option<"reshardAfterForward", "reshard-after-forward",
                        "std::string", "\"auto\"", "auto, true or false">];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def InsertGradReduction
    : Pass<"fsdp-insert-grad-reduction", "::mlir::ModuleOp"> {
  let summary = "Averages the gradients of sharded parameters over the ranks";
  let description = [{
    Input IR: states have shardings.

    Output IR: each `fsdp.update` of a sharded parameter reads an
    `fsdp.reduce_grad`, which stands right after the gradient it averages. A
    gradient that is not row-major is cloned first.

    What holds: a parameter without an update has no reduction.

    Why: each rank has the gradient of its own batch; the mean is that of the
    global one.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def FlattenState : Pass<"fsdp-flatten-state", "::mlir::ModuleOp"> {
  let summary = "Lays a unit's parameters out as one range";
  let description = [{
    Input IR: `fsdp.unshard` and `fsdp.reduce_grad`, whole types.

    Output IR: a flat parameter per unit, element type, and names and types of
    optimizer states, one for parameters that are updated and one for those
    that are not; and a flat optimizer state for each name. Parameters and
    their states keep their symbols and types, but lie in the flat ones, from
    element `flat_offset` on. An unshard of a parameter is one of the flat
    parameter and an `aten.call "as_strided"`. An `fsdp.pack` makes one of the
    members' gradients, which has one `fsdp.reduce_grad` and an `fsdp.update`
    of the elements [begin, end) per rule.

    A unit has more flat parameters than that where `bucket-cap-mib` cuts it, as
    `fsdp-bucket-collectives` does, in the order of the members' first use.

    What holds: members of one rule follow each other, each at a multiple of 64
    bytes. The flat parameter is cut into equal pieces of a multiple of 64 bytes,
    or of a page with `gather=map`; everything behind sees a parameter whose
    dimension 0 divides. Padding is never read, and its gradient is zero.

    Why: with dim0 every collective copies its members in and out. A piece of a
    flat parameter is what a rank sends; the whole of it, what kernels read.
  }];
  let options = [
    Option<"gather", "gather", "std::string", "\"copy\"",
           "copy, or map: read the ranks' pieces in place">,
    Option<"bucketCapMib", "bucket-cap-mib", "std::string", "\"none\"",
           "none, auto, or MiB of whole tensors in one flat parameter">,
    Option<"cluster", "cluster", "std::string", "\"local\"",
           "a preset or a TOML file: what auto prices">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def Localize : Pass<"fsdp-localize", "::mlir::ModuleOp"> {
  let summary = "Turns whole types into those of one rank's part";
  let description = [{
    Input IR: `fsdp.unshard`, `fsdp.reduce_grad`; whole types.

    Output IR: states have the type of one rank's padded part, and `global`.
    `fsdp.unshard` is `shard.all_gather`, and a slice where the dimension does
    not divide; `fsdp.reduce_grad` is a pad where it does not, the sum
    `shard.reduce_scatter`, and a division by the number of ranks.

    What holds: compute is as it was, on the same shapes.

    Why: all ranks have the same types (dimension 0 split as `torch.chunk`
    does, padded with rows of zeros), so one program serves them all.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect",
                           "::mlir::shard::ShardDialect"];
}

def VerifySharded : Pass<"fsdp-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Closes the sharded phase";
  let description = [{
    Input and output IR: sharded. Each constraint is an error with its number:

    - S1: every parameter belongs to a unit that exists, or is replicated.
    - S2: a sharding splits dimension 0, and no other, over axis 0 of a grid
      that exists, and the local part has ceil(rows / ranks) rows.
    - S3: optimizer state is split as its parameter.
    - S4: a sharded parameter is read by `shard.all_gather` alone.
    - S5: the gradient of a sharded parameter is the sum of a
      `shard.reduce_scatter` divided by the number of ranks.
    - S6: collectives carry `fsdp.unit`, the unit of their parameter, and
      gathers `fsdp.region`; forward reads no gather of backward.
    - S7: no `fsdp.unshard` and no `fsdp.reduce_grad` is left.
    - S8: a parameter is not read after its update.
    - S9: what lies in a flat state names one that is, of its role, unit and
      element type; begins at a multiple of 64 bytes where it is a parameter;
      ends within it and before the next one begins. Optimizer state lies in a
      state of its parameter's flat one, where its parameter does.
    - S10: a flat state is cut into equal pieces of a multiple of 64 bytes, of
      a page where it is `mapped`.
    - S11: programs name flat states, not what lies in them.
    - S12: the ranges of one flat parameter's updates do not overlap.
  }];
}

// fsdp-overlap: sharded to scheduled

def DedupUnshard : Pass<"fsdp-dedup-unshard", "::mlir::ModuleOp"> {
  let summary = "Leaves one gather of a parameter per region";
  let description = [{
    Input IR: sharded; a gather per reader.

    Output IR: the first gather of each parameter and region, which all its
    readers share; of each `mapped` parameter, the first of all.

    What holds: gathers of different regions stay apart, where they take memory.
    A mapped one takes none, and shows the same bytes until the update.

    Why: a module used twice, or a weight with two readers, is gathered once.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def BucketCollectives : Pass<"fsdp-bucket-collectives", "::mlir::ModuleOp"> {
  let summary = "Makes the collectives of one unit one";
  let description = [{
    Input IR: a gather per parameter and region, a reduce-scatter per gradient.

    Output IR: one `fsdp.all_gather` per unit and region, in bytes, in front of
    its first reader; one `fsdp.reduce_scatter` per unit and element type,
    behind the last of its gradients. `fsdp.pack` and `fsdp.unpack` copy
    members in and out.

    What holds: a bucket is rank-major, members lie at multiples of 64 bytes. The
    division by the number of ranks that followed each sum is the `divisor` of
    the bucket's reduction.

    `bucket-cap-mib` says how much one bucket may hold of a unit, in MiB of whole
    tensors: `none`, all; a number; or `auto`. With `auto` a unit is cut where
    another one is needed in between, and where its collective takes longer
    than the compute beside it, so that only a first or last piece is exposed;
    no piece is so small that the fixed cost is over a tenth on `cluster`.

    Why: a collective has a fixed cost, and one large transfer runs at the
    speed of the wire.
  }];
  let options = [
    Option<"bucketCapMib", "bucket-cap-mib", "std::string", "\"none\"",
           "none, auto, or MiB of whole tensors in one bucket">,
    Option<"cluster", "cluster", "std::string", "\"local\"",
           "a preset or a TOML file: what auto prices">];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def ConvertToAsync : Pass<"fsdp-convert-to-async", "::mlir::ModuleOp"> {
  let summary = "Splits collectives into start and wait";
  let description = [{
    Input IR: `fsdp.all_gather`, `fsdp.reduce_scatter`.

    Output IR: each is a start and, right behind it, its wait.

    What holds: the order of starts is that of the collectives.

    Why: from here on the order of the ops is the schedule; moving a start up
    or a wait down is overlap.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def ScheduleOverlap : Pass<"fsdp-schedule-overlap", "::mlir::ModuleOp"> {
  let summary = "Decides when collectives start and are waited for";
  let description = [{
    Input IR: each start is followed by its wait; gathers stand in front of
    their first readers, reductions behind the last of their gradients.

    Output IR: the same ops in another order. A pack moves with its start, an
    unpack with its wait, the update with the wait of its gradient. Programs
    carry `fsdp.schedule`. `schedule` is one of

    - `overlap`: a cost model of the `cluster` (runtime/cost) predicts a
      timeline of compute, of gathers and of reductions. Each gather starts as
      late as it can and still be through when its first reader comes, each
      reduction at once; it is waited for when it should be through, and the
      parameter is updated there, so that gradients are freed; only as many
      updates as fill the wait for the last reductions are held back for it.
      Several margins for collectives that take longer than predicted are
      tried, and the one with the least exposed communication, of equals the
      least peak, is kept.
    - `fsdp2`: FSDP2's order. A gather starts behind the wait of the one before
      it (`prefetch-*=1`), a reduction when its last gradient is there; the one
      before it is waited for first; updates stay at the end.
    - `naive`: as it came. Depths and budget have no effect.

    `prefetch-forward=N` and `prefetch-backward=N` start the gather of the unit
    that is used N units later right behind the wait of the current one; 0 at
    its first reader. With `memory-budget-mib` (states and everything a program
    owns at one time) `overlap` shortens flights where a program does not fit;
    where nothing is left to shorten, an error names what it needs.

    What holds: compute keeps its order, random ops too. No state is read by an
    op in front of which its update did not stand before. The starts of one
    kind are waited for in their order. A state that other ranks read in a
    window is updated behind a collective that starts behind the last read.
    Only the order changes, so all schedules give the same bits.

    Why: a collective beside compute costs nothing, but its buffers are memory.
  }];
  let options = [
    Option<"schedule", "schedule", "std::string", "\"overlap\"",
           "overlap, fsdp2 or naive">,
    Option<"prefetchForward", "prefetch-forward", "std::string", "\"auto\"",
           "units that forward gathers ahead, or auto">,
    Option<"prefetchBackward", "prefetch-backward", "std::string", "\"auto\"",
           "units that backward gathers ahead, or auto">,
    Option<"memoryBudgetMib", "memory-budget-mib", "std::string", "\"\"",
           "MiB that a rank may use; nothing: all">,
    Option<"cluster", "cluster", "std::string", "\"local\"",
           "a preset or a TOML file: what the cost model prices">];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def VerifyAsync : Pass<"fsdp-verify-async", "::mlir::ModuleOp"> {
  let summary = "Closes the scheduled phase";
  let description = [{
    Input and output IR: scheduled. Each constraint is an error with its number:

    - A1: no collective is synchronous or in the `shard` dialect.
    - A2: each future is waited for exactly once.
    - A3: the wait is in the block of its start (and so behind it).
    - A4: collectives stand in a program's first block, so that every rank starts
      the same ones in the same order.
    - A5: a gather has a piece, a reduction a row, per rank of the mesh.
    - A6: a collective's unit exists.
    - A7: a reduction divides its sum by the number of ranks.
  }];
}

// fsdp-lower: scheduled to commands

def AssignStreams : Pass<"fsdp-assign-streams", "::mlir::ModuleOp"> {
  let summary = "Says on which stream each op runs";
  let description = [{
    Input IR: scheduled.

    Output IR: `fsdp.stream` on every op of a program that will be a command:
    all-gathers are on stream 1, reduce-scatters on stream 2, everything else,
    waits and copies too, on stream 0. `streams=1` puts all on stream 0.

    What holds: commands of one stream run in the order of the block.

    Why: a collective runs beside compute, and a gather beside a reduction. Which
    op is where is said once, here. One stream is what to compare with.
  }];
  let options = [Option<"streams", "streams", "int64_t", "3",
                        "1: all in order; 3: gathers and reductions beside compute">];
}

def PlanMemory : Pass<"fsdp-plan-memory", "::mlir::ModuleOp"> {
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

    What holds: states lie one after the other from the start of arena 0, those
    that mapped gathers show first, at whole pages, and each of these has one
    range of arena 1 in all programs. Every program uses arena 0 from the states' end on. Places
    start at multiples of 64 bytes. What is read later is never overwritten; a
    collective uses its source and its destination from its start to its wait.

    A view has the place of what it looks into. A load has its state's place;
    where a program reads it after it has written the state, it is a copy. What a
    store writes is computed at the state's place where the old value is no
    longer read by then. A member of a pack of one block is computed in the
    bucket where it can be, and what is unpacked from one block of a collective's
    result stays there: both are parts of the bucket's place.

    Why: nothing is allocated in a step, and the peak is a number.
    `algorithm=naive` gives each value bytes of its own: the baseline to compare
    `best` with.
  }];
  let options = [Option<"algorithm", "algorithm", "std::string", "\"best\"",
                        "best, or naive: bytes of its own for every value">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def LowerToCommands : Pass<"fsdp-lower-to-commands", "::mlir::ModuleOp"> {
  let summary = "Rewrites programs into the closed set of commands";
  let description = [{
    Input IR: values and states have places.

    Output IR: programs consist of `fsdp.cmd` ops, step scalars and the return.
    A pack is a copy per member, and one that zeroes each gap; an unpack is a copy
    per member; a store is a copy into the state; a load is the state itself.

    A start on a side stream is five commands: record and wait make its stream
    follow the compute stream, then the collective, on its channel (0 gathers,
    1 reductions), then a record, for which its wait waits on stream 0.

    What holds: one command is one command of the plan. A record stands in front
    of its wait.

    Why: what remains is what a rank executes, so it can be checked as such. An
    op that writes an operand in place is an error here: the IR's values do not
    change.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def VerifyCommands : Pass<"fsdp-verify-commands", "::mlir::ModuleOp"> {
  let summary = "Closes the commands phase";
  let description = [{
    Input and output IR: commands. Each constraint is an error with its number:

    - C1: programs contain commands, step scalars and a return, nothing else.
    - C2: a place lies inside its arena and holds its tensor; a state's value
      has the state's type and place.
    - C3: a view has the place of its base, and its call names an input of that
      memory.
    - C4: a command does not write bytes that it reads.
    - C5: in the order of the commands, every byte that is read was written by
      the value it is read as, and not since by another; outputs and states are
      there at the end.
    - C6: copied blocks lie inside both places; bytes of a view are not copied.
    - C7: a collective's ranges are its count, times the ranks on the side where
      all ranks' data is.
    - C8: collectives of a channel are on one side stream, all else is on
      stream 0; an event is recorded once and then waited for.
    - C9: a read is ordered behind the write of its bytes, by its stream or by
      events.
    - C10: a write is ordered behind all that read or wrote its bytes before.
    - C11: a part lies inside a value that is whole, and apart from the others.
    - C12: a mapped gather shows one state at one place of arena 1; an update of
      a shown state has a collective between every rank's reads and itself.
    - C13: the arenas end where the last place does.
    - C14: a reduction divides by the number of ranks, a gather by one.
  }];
}

// Anywhere

def RecordPipeline : Pass<"fsdp-record-pipeline", "::mlir::ModuleOp"> {
  let summary = "Writes a pipeline's text into the module";
  let description = [{
    Input IR: any. Output IR: the same, with `text` added at the end of the
    module attribute `fsdp.pipeline`.

    Why: a plan says how it was made.
  }];
  let options = [Option<"text", "text", "std::string", "\"\"",
                        "the pipeline, as the command line has it">];
}

def Report : Pass<"fsdp-report", "::mlir::ModuleOp"> {
  let summary = "Reports collectives, bytes, memory and predicted time";
  let description = [{
    Input and output IR: any phase.

    Per program and unit: the number of all-gathers in forward and in backward
    and of reduce-scatters, and the bytes that one rank receives from all
    gathers and contributes to all reduce-scatters; how long the program is
    predicted to take on `cluster`, the sum of its collectives and what of it
    no compute hides. Where places are known: the most bytes in use at one time,
    and the bytes of the arenas.
  }];
  let options = [
    Option<"format", "format", "std::string", "\"pretty\"",
           "pretty, csv or json">,
    Option<"output", "output", "std::string", "\"-\"",
           "file to write; - is standard output">,
    Option<"cluster", "cluster", "std::string", "\"local\"",
           "a preset or a TOML file: what the prediction is for">];
}

#endif // FSDP_PASSES_TD

// The passes of fsdp-lower, scheduled to commands, in the order of the pipeline.

#ifndef FSDP_LOWER_PASSES_TD
#define FSDP_LOWER_PASSES_TD

include "mlir/Pass/PassBase.td"

def AssignStreams : Pass<"fsdp-assign-streams", "::mlir::ModuleOp"> {
  let summary = "Says on which stream each op runs";
  let description = [{
    Input IR: scheduled.

    Output IR: `fsdp.stream` on every op of a program that will be a command:
    all-gathers are on stream 1, reduce-scatters on stream 2, sums over replicas
    on stream 3, copies from the host on stream 4, copies to it on stream 5,
    everything else, waits and copies too, on stream 0. What only a gather or an
    offload reads is waited for on its stream. `streams=1` puts all on stream 0.

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
    on the host of arena 2, those that mapped gathers show first, at whole pages, and each of these has one
    range of arena 1 in all programs. Every program uses arenas 0 and 2 from the states' end on. What an
    offload gives is in arena 2, and calls compute where their operands are. Places
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
    - C8: collectives of a channel are on one side stream, copies from the host
      on stream 4 and to it on stream 5 (or all on stream 0), all else is on
      stream 0; an event is recorded once and then waited for.
    - C9: a read is ordered behind the write of its bytes, by its stream or by
      events.
    - C10: a write is ordered behind all that read or wrote its bytes before.
    - C11: a part lies inside a value that is whole, and apart from the others.
    - C12: a mapped gather shows one state at one place of arena 1; an update of
      a shown state has a collective between every rank's reads and itself.
    - C13: the arenas end where the last place does.
    - C14: a reduce-scatter divides by its unit's divisor (the number of ranks,
      where it has none of its own), an all-reduce by it or by one, a gather or a
      maximum by one. Where there are replicas, the sum over them divides, and no
      reduce-scatter.
    - C15: a call and an update use one memory, the device's or the host's; a
      collective uses the device's.
    - C16: what runs on a GPU has a kernel there.
    - C17: a part that is kept is one of equal parts of a whole value, for so
      many neighbours over the shard axis as divide it. A gather among
      neighbours is of what as many kept.
    - C18: a parameter is written by updates; or, where they change a staged
      copy, by the copy of that, once, behind the last of them. The staged copy
      is made of the parameter and used by nothing else.
    - C19: on GPUs the numbers of a step are in memory: "scalar_tensor" alone
      takes one.
  }];
}

#endif // FSDP_LOWER_PASSES_TD

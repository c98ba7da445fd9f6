// The passes of fsdp-shard, captured to sharded, in the order of the pipeline.

#ifndef FSDP_SHARD_PASSES_TD
#define FSDP_SHARD_PASSES_TD

include "mlir/Pass/PassBase.td"

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

def OffloadState : Pass<"fsdp-offload-state", "::mlir::ModuleOp"> {
  let summary = "Keeps parameters, gradients and optimizer state on the host";
  let description = [{
    Input IR: parameters have units, types are those of one rank's part.

    Output IR: the parameters that are offloaded and their optimizer states are
    `on_host`. Readers of such a parameter, gathers mostly, read an
    `fsdp.fetch`, one per region; its updates read an `fsdp.offload` of their
    gradient, and so run on the host. The module has `fsdp.pin_memory` where
    host memory is to be pinned.

    What holds: what is on the host is read by fetches and written by updates
    alone. No bit changes. A replicated parameter, and a buffer, stays on the
    device. What is fetched is gathered by copying, also where `gather=map`
    shows other states in place.

    Why: a rank's device then holds what is whole at one time and nothing else.

    `offload=all` is FSDP2's `CPUOffloadPolicy` for all units. What a unit says
    itself (`offload`, `pin_memory`) wins.
  }];
  let options = [
    Option<"offload", "offload", "std::string", "\"none\"", "none or all">,
    Option<"pinMemory", "pin-memory", "bool", "true",
           "whether host memory is pinned">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
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
    - S13: a state on the host is read by `fsdp.fetch` alone, which reads nothing
      else; an update's states and gradient are all on the host, or none is.
  }];
}

#endif // FSDP_SHARD_PASSES_TD

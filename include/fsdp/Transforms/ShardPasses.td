// The passes of fsdp-shard, captured to sharded, in the order of the pipeline.

#ifndef FSDP_SHARD_PASSES_TD
#define FSDP_SHARD_PASSES_TD

include "mlir/Pass/PassBase.td"

def SelectKernels : Pass<"fsdp-select-kernels", "::mlir::ModuleOp"> {
  let summary = "Picks the kernels of the device that a plan is for";
  let description = [{
    Input IR: captured, with the kernels of a CPU: a step is captured on one.

    Output IR: with `device=cpu` the same. With `device=cuda`, `fsdp.device` on
    the module, and each attention is a call of one of PyTorch's kernels for
    GPUs: of `attention`, the first that computes it, by type, mask and head
    size. What such a kernel asks for is put around it: heads are padded to a
    size that it takes, keys are repeated for each query head, the mask is cast
    to the type of the scores, its rows aligned, and expanded. Where a CPU has
    captured attention as matrix products (with dropout, or a mask that has a
    gradient), they become a kernel if one computes it, and stay otherwise.

    What holds: the value is that of the same expression, and what reads it sees
    the same type. What other operators leave for their backward gets the type
    that a GPU gives (of normalisations in half precision, f32). A rule that is
    torch.optim's Adam, AdamW or SGD, op for op, is a call of the fused kernel of
    that optimizer. Every other
    operator has one name for all devices, and `fsdp-verify-commands` sees to it
    that there is a kernel for it.

    Why: attention is the operator that has a name for each kernel. First of
    all, so that all that follows sees, prices and recomputes what will run.
  }];
  let options = [Option<"device", "device", "std::string", "\"cpu\"",
                        "cpu or cuda">,
                 Option<"attention", "attention", "std::string",
                        "\"flash,efficient\"",
                        "kernels on GPUs, best first: flash, efficient, cudnn">];
  let dependentDialects = ["::fsdp::aten::AtenDialect"];
}

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

def RematActivations : Pass<"fsdp-remat-activations", "::mlir::ModuleOp"> {
  let summary = "Recomputes in backward what forward need not keep";
  let description = [{
    Input IR: captured; units are assigned.

    Output IR: what backward reads of a region of forward, and forward does not
    keep, is computed again in front of its first reader in backward, by ops
    that carry `fsdp.phase = "backward"` and `fsdp.recompute`, the region's
    name. A region is the ops of a unit's modules, less those of units inside
    and of the root, or a checkpoint of the model's own (`fsdp.checkpoint`).

    What is kept by `remat` is, next to what enters a region and what leaves it,

    - `full`: nothing;
    - `selective`: results of matrix products, convolutions and attention;
    - `none`: everything;
    - `auto`: chosen for each region, so that `memory-budget-mib` holds at the
      least time that is predicted on `cluster`. A choice is measured by running
      `trial`, the passes that follow, on a copy. Where no choice fits, an error
      names the smallest budget that one does.

    A checkpoint is recomputed whatever the option says, but for results that
    its policy keeps (`fsdp.keep`).

    What holds: the same ops on the same values, so the same bits. A random op
    keeps its site, and so repeats its numbers; what forward stores is not
    stored again. Recomputed ops are not those of forward to `--cse`.

    Why: what lies between a unit's forward and its backward is then not in
    memory while other units run, for the time that it takes to compute it
    again. In front of shard-state, as readers in backward get gathers of their
    own, recomputed ones too.
  }];
  let options = [Option<"remat", "remat", "std::string", "\"none\"",
                        "none, selective, full or auto">,
                 Option<"memoryBudgetMib", "memory-budget-mib", "std::string",
                        "\"\"", "MiB that a rank may use; nothing: all">,
                 Option<"cluster", "cluster", "std::string", "\"auto\"",
                        "a preset, a TOML file or auto (by device): what auto prices">,
                 Option<"trial", "trial", "std::string", "\"\"",
                        "the passes that follow, by which auto measures">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def ShardState : Pass<"fsdp-shard-state", "::mlir::ModuleOp"> {
  let summary = "Says how parameters and optimizer state are split over the mesh";
  let description = [{
    Input IR: parameters have units. `fsdp.mesh` on the module, where the model
    describes one, stands for the option.

    Output IR: `shard.grid @mesh`, and `sharding` on every parameter and its
    optimizer state. Types are still those of whole tensors. A mesh of one rank
    shards nothing, and a replicated parameter is never sharded.

    `mesh=2x4` is two replicas of four shards: states are split over the last
    axis, and each of its parts is on as many ranks as there are replicas.
    `mesh=8x1` has replicas alone: nothing is gathered, as with DDP.

    A parameter is split on dimension 0, or with `dim0` on that which the model
    names as `fsdp.shard_dim`; another than 0 must divide.

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
    parameter whole: neither its gather nor a view or a precision cast of it.

    Why: as in FSDP2, forward's whole parameters are freed before backward
    gathers them again. `auto` keeps the root's, which backward needs at once.
    What a unit says itself (`reshard`) wins.

    A number of ranks, a divisor of the shards, reshards too; it is written on
    the units (`reshard_ranks`) for `fsdp-keep-pieces`. As in FSDP2 that of all
    shards is `true`, and 1 is `false`.
  }];
  let options = [Option<"reshardAfterForward", "reshard-after-forward",
                        "std::string", "\"auto\"",
                        "auto, true, false or a number of ranks">];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def InsertGradReduction
    : Pass<"fsdp-insert-grad-reduction", "::mlir::ModuleOp"> {
  let summary = "Averages the gradients of sharded parameters over the ranks";
  let description = [{
    Input IR: states have shardings; units may have a `reduce_dtype`.

    Output IR: each `fsdp.update` of a sharded parameter reads an
    `fsdp.reduce_grad`, which stands right after the gradient it averages. A
    gradient that is not row-major is cloned first.

    It is reduced in the unit's `reduce_dtype`, or else in `reduce-dtype`, or
    else in what backward computes it in: a precision cast goes before the
    reduction, and one to the parameter's dtype behind it, where they differ. A
    mesh of one rank reduces nothing, and has the casts, so that it rounds as
    several would, and a division by the unit's own `gradient_divisor`.

    What holds: a parameter without an update has no reduction.

    Why: each rank has the gradient of its own batch; the mean is that of the
    global one. A unit's `gradient_divisor` makes something else of their sum.
  }];
  let options = [Option<"reduceDtype", "reduce-dtype", "std::string", "\"\"",
                        "float16, bfloat16, float32 or float64; nothing: what "
                        "gradients are computed in">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def MovePrecisionCasts
    : Pass<"fsdp-move-precision-casts", "::mlir::ModuleOp"> {
  let summary = "Casts parameters in front of their gathers";
  let description = [{
    Input IR: `fsdp.unshard` of parameters in their own dtype; its readers may
    be precision casts, to what the unit computes in.

    Output IR: an unshard that only precision casts read is one of the cast
    parameter.

    What holds: no whole parameter is in a dtype that nothing computes with. A
    cast of a part is the part of the cast, so no bit changes.

    Why: a bf16 gather moves half the bytes of a fp32 one, and takes half the
    memory.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def FlattenState : Pass<"fsdp-flatten-state", "::mlir::ModuleOp"> {
  let summary = "Lays a unit's parameters out as one range";
  let description = [{
    Input IR: `fsdp.unshard` and `fsdp.reduce_grad`, whole types.

    Output IR: a flat parameter per unit, element type, and names and types of
    optimizer states, and dtype of precision casts, one for parameters that are
    updated and one for those that are not; and a flat optimizer state for each name. Parameters and
    their states keep their symbols and types, but lie in the flat ones, from
    element `flat_offset` on. An unshard of a parameter is one of the flat
    parameter and an `aten.call "as_strided"`. An `fsdp.pack` makes one of the
    members' gradients, which has one `fsdp.reduce_grad` and an `fsdp.update`
    of the elements [begin, end) per rule. Precision casts of parameters and
    of reduced gradients become those of the flat ones.

    A unit has more flat parameters than that where `bucket-cap-mib` cuts it, as
    `fsdp-bucket-collectives` does, in the order of the members' first use.

    What holds: members of one rule follow each other, each at a multiple of 64
    bytes. The flat parameter is cut into equal pieces of a multiple of 64 bytes,
    or of a page with `gather=map`, in each dtype it is moved in; everything behind sees a parameter whose
    dimension 0 divides. Padding is never read, and its gradient is zero.

    Why: with dim0 every collective copies its members in and out. A piece of a
    flat parameter is what a rank sends; the whole of it, what kernels read.
  }];
  let options = [
    Option<"gather", "gather", "std::string", "\"copy\"",
           "copy, or map: read the ranks' pieces in place">,
    Option<"bucketCapMib", "bucket-cap-mib", "std::string", "\"none\"",
           "none, auto, or MiB of whole tensors in one flat parameter">,
    Option<"cluster", "cluster", "std::string", "\"auto\"",
           "a preset, a TOML file or auto (by device): what auto prices">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def AccumulateGradients
    : Pass<"fsdp-accumulate-gradients", "::mlir::ModuleOp"> {
  let summary = "Splits a step of several micro-batches into two programs";
  let description = [{
    Input IR: `fsdp.accumulate = K : i64` on the module, micro-batches per step.
    Without it, or with 1, nothing changes.

    Output IR: a state `@"w/grad"` of the role `gradient` for each gradient that
    an update reads, as backward gives it: whole, each rank's own. The program
    `@accumulate`, for every micro-batch but the last, is `@step` with an
    `fsdp.accumulate` in place of reductions and updates. `@step`, for the last
    one, reduces the state plus its own gradient, and puts the state back to
    -0.0. Backward starts with 1/K in both.

    Behind `fsdp-localize` states are parts, as the update reads them, and
    `@accumulate` has reductions: less memory for more communication. Where there
    are replicas they are parts of sums that are not divided yet: `@accumulate`
    sums over the shards alone; `@step` adds the state to its own such sum, and
    then sums over the replicas and divides, once.

    What holds: in front of `fsdp-localize`, no gradient is communicated but in
    `@step`. The sum is taken in
    the order of the micro-batches, beginning with the first: adding to -0.0
    gives the other number in every bit.

    Why: as `(loss / K).backward()` in FSDP2 under
    `set_requires_gradient_sync(False)`: a larger batch for the memory of a
    smaller one, and its communication.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def Localize : Pass<"fsdp-localize", "::mlir::ModuleOp"> {
  let summary = "Turns whole types into those of one rank's part";
  let description = [{
    Input IR: `fsdp.unshard`, `fsdp.reduce_grad`; whole types.

    Output IR: states have the type of one rank's padded part, and `global`.
    `fsdp.unshard` is `shard.all_gather`, and a slice where the dimension does
    not divide; `fsdp.reduce_grad` is a pad where it does not, the sum
    `shard.reduce_scatter`, and a division by the number of ranks, or by the
    unit's `gradient_divisor`. Where there are replicas, `shard.all_reduce` adds up their parts in front of the
    division. What would be over one rank is left out. Where another dimension
    than 0 is split, the parts travel as rows: a gather is followed, and a sum
    preceded, by an `aten.call "permute"` and a copy.

    What holds: compute is as it was, on the same shapes.

    Why: all ranks have the same types (dimension 0 split as `torch.chunk`
    does, padded with rows of zeros), so one program serves them all.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect",
                           "::mlir::shard::ShardDialect"];
}

def ScaleLoss : Pass<"fsdp-scale-loss", "::mlir::ModuleOp"> {
  let summary = "Scales the loss dynamically, so that small gradients survive";
  let description = [{
    Input IR: local types; `fsdp.scaler` on the module, with the states
    `@fsdp.scaler.scale`, `@fsdp.scaler.growth_tracker` and
    `@fsdp.scaler.skipped_steps`; an op marked `fsdp.cotangent`. Without
    `fsdp.scaler` nothing changes.

    Output IR: backward starts with the scale. Behind each unit's gradients the
    largest magnitude, and an `fsdp.all_reduce max` of it for each axis of the mesh
    that gradients are cut over. Updates have the `scale` 1 / scale, and `skip`
    where the largest is not finite; `_amp_update_scale` gives the next scale,
    which is stored, as is the number of skipped steps: rules do not count those.
    The scale is the program's output `loss_scale`.

    What holds: all ranks skip the same steps, and a skipped step changes no
    parameter and no optimizer state.

    Why: torch.amp.GradScaler with shards. Gradients are not unscaled in memory:
    the update multiplies what it has in the cache.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect",
                           "::mlir::arith::ArithDialect"];
}

def ClipGradients : Pass<"fsdp-clip-gradients", "::mlir::ModuleOp"> {
  let summary = "Bounds gradients by their norm or by value";
  let description = [{
    Input IR: local types; `fsdp.clip_grad_norm` (the largest norm, and its
    type: 1, 2, any p >= 1, infinity) or `fsdp.clip_grad_value` on the module.
    Without either nothing changes.

    Output IR, by norm: behind each unit's gradients
    `aten.call "fsdp_mlir::power_sum"`, in float64; their sum, an
    `fsdp.all_reduce` of that one number for each axis of the mesh that
    gradients are cut over, the norm, and the factor
    min(largest / (norm + 1e-6), 1), which is the `scale` of every update. The
    norm is the program's output `grad_norm`. An infinite bound asks for the norm
    alone. By value: each rule clamps its gradient first.

    What holds: a gradient of several updates counts once, one that each rank
    has whole counts once and not once per rank, padding is zero. The updates
    stand at the end of the program.

    Why: PyTorch's clip_grad_norm_ with shards. No gradient is written again: the
    update multiplies what it has in the cache, with the bits of doing it before.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def HoldScalars : Pass<"fsdp-hold-scalars", "::mlir::ModuleOp"> {
  let summary = "Keeps the numbers of a step in a GPU's memory";
  let description = [{
    Input IR: any before commands; `fsdp.device` on the module. Without it
    nothing changes.

    Output IR: a step scalar (`fsdp.learning_rate`, `fsdp.step_count`, what
    follows from them) is read by `aten.call "scalar_tensor"` alone, and what
    took the number takes that tensor: by the overload that has one there
    (`mul.Scalar` becomes `mul.Tensor`, `_fused_adamw` its `tensor_lr`), or as a
    factor of an operand (`addcdiv`'s `value`, `add.Tensor`'s `alpha`). Calls in
    f16 and bf16 that take one are done in f32. What follows from an
    `fsdp.state_value` is computed by calls on tensors.

    What holds: a call means the same; its last bits may be other ones. Calls
    that have no such form are refused.

    Why: what is captured as a graph keeps the numbers that its kernels were
    launched with. In memory they are the step's own, so that a plan has the same
    bits with and without a graph; and a number that a GPU holds never has to
    come to the host.
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def OffloadState : Pass<"fsdp-offload-state", "::mlir::ModuleOp"> {
  let summary = "Keeps parameters, optimizer state or both on the host";
  let description = [{
    Input IR: parameters have units, types are those of one rank's part.

    Output IR: with `offload=params` parameters are `on_host`, with `optimizer`
    their optimizer states, with `all` both. Readers of such a parameter,
    gathers mostly, read an `fsdp.fetch`, one per region. An update runs where
    the optimizer states are, or, where there are none, where the parameter is:
    on the host it reads an `fsdp.offload` of the gradient. A parameter that is
    elsewhere is staged: the update changes a fetch or an offload of it, which
    an `fsdp.store` takes back. The module has `fsdp.pin_memory` where host
    memory is to be pinned.

    What holds: what is on the host is read by copies and written by updates
    and by what takes staged parameters back. No bit changes. A replicated
    parameter, and a buffer, stays on the device. What is fetched is gathered by
    copying, also where `gather=map` shows other states in place.

    Why: with `all`, a rank's device holds what is whole at one time and nothing
    else. `optimizer` leaves forward and backward as they are, for two thirds of
    that; `params` leaves the updates on the device.

    `offload=all` is FSDP2's `CPUOffloadPolicy` for all units. What a unit says
    itself (`offload`, `pin_memory`) wins.
  }];
  let options = [
    Option<"offload", "offload", "std::string", "\"none\"",
           "none, params, optimizer or all">,
    Option<"pinMemory", "pin-memory", "bool", "true",
           "whether host memory is pinned">];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def VerifySharded : Pass<"fsdp-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Closes the sharded phase";
  let description = [{
    Input and output IR: sharded. Each constraint is an error with its number:

    - S1: every parameter belongs to a unit that exists, or is replicated.
    - S2: a sharding splits one dimension, over the last axis of a grid that
      exists, and the local part has ceil(size / shards) of it; only dimension 0
      may be uneven.
    - S3: optimizer state is split as its parameter.
    - S4: a sharded parameter is read by `shard.all_gather` alone, or by a
      precision cast that is.
    - S5: the gradient of a sharded parameter is the sum of a
      `shard.reduce_scatter` over the shards, and where there are replicas of a
      `shard.all_reduce` over them, divided by the unit's divisor (the number of
      ranks, where it has none of its own), or a precision cast of it; or what
      earlier micro-batches gave plus such a mean, without replicas, or else such
      a mean of what they gave plus the sum over shards.
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
    - S13: gradient states are added to in @accumulate, and in no other program;
      @step loads each once and then puts it back to -0.0. @accumulate does not
      sum over replicas.
    - S14: where the module bounds the norm of gradients, all updates of a
      program are scaled by one factor.
    - S15: a state on the host is read by `fsdp.fetch` alone, which reads nothing
      else; an update's states and gradient are all on the host, or none is.
    - S16: a parameter that is not where it is updated, and no other, is staged
      there: its first update changes a copy of it, the next ones what the one
      before gives, and what the last one gives is stored in it.
  }];
}

#endif // FSDP_SHARD_PASSES_TD

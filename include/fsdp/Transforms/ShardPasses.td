// The passes that cut states into shards, in the order of the pipeline.

#ifndef FSDP_SHARD_PASSES_TD
#define FSDP_SHARD_PASSES_TD

include "fsdp/Transforms/PassOptions.td"

def ShardState : ModulePass<"fsdp-shard-state"> {
  let summary = "Says how parameters and optimizer state are split over the mesh";
  let description = [{
    Input IR: parameters have units. `mesh` of `fsdp.training`, where the model
    describes one, stands for the option.

    Output IR: `shard.grid @mesh`, and `sharding` on every parameter and its
    optimizer state. Types are still those of whole tensors. A mesh of one rank
    shards nothing, and a replicated parameter is never sharded.

    `mesh=2x4` is two replicas of four shards: states are split over the last
    axis, and each of its parts is on as many ranks as there are replicas. All
    other axes are of replicas: `mesh=2x2x4` has four of them.
    `mesh=8x1` has replicas alone: nothing is gathered, as with DDP.

    A parameter is split on dimension 0, or with `dim0` on that which the model
    names as `fsdp.shard_dim`; another than 0 must divide.

    What holds: optimizer state of its parameter's shape is split as that is.
    State of another shape, which a rule of whole matrices may have, is split on
    its first dimension that is longer than one, where that divides, and else by
    rows. Other rules are pointwise, so that a part of a parameter may be updated
    alone; one that is not is an error. So are parameters that are not row-major.

    With `dim0` a parameter without dimensions has no `sharding`: each rank has
    the whole, and `fsdp-localize` makes the reduction of its gradient a sum
    over all ranks.

    `shard-layout` is `dim0`, rows of each parameter apart, or `flat`: equal
    pieces of a unit's elements, which `fsdp-flatten-state` lays out.

    Why: the sharding is said once, as an attribute; all other passes read it.

    Input:

    ```mlir
    // fsdp-opt --fsdp-shard-state="mesh=2"
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<3x4xf32> {trainable, unit = ""}
    fsdp.state @"w/exp_avg" optimizer : tensor<3x4xf32> {parameter = @w}
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<3x4xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    fsdp.state @"w/exp_avg" optimizer : tensor<3x4xf32> {parameter = @w, sharding = #fsdp.sharding<@mesh, [[0]]>}
    ```
  }];
  let options = [MeshOption, MeshDimsOption, ShardLayoutOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::mlir::shard::ShardDialect"];
}

def InsertUnshard : ModulePass<"fsdp-insert-unshard"> {
  let summary = "Makes parameters whole in front of each of their readers";
  let description = [{
    Input IR: states have shardings.

    Output IR: each reader of a sharded parameter reads an `fsdp.unshard` of
    its own. Where the unit reshards after forward, readers in backward get the
    region backward, and view chains that forward computed from a parameter
    are repeated for them.

    What holds: between forward and backward nothing keeps a resharded
    parameter whole: neither its gather nor a view or a precision cast of it.

    Why: as in FSDP2, forward's whole parameters are freed before backward
    gathers them again. `reshard-after-forward=auto` keeps the root's, which
    backward needs at once. What a unit says itself (`reshard`) wins over the
    option.

    The option may be a number of ranks, which divides the number of shards.
    That reshards too, and the number is written on the units (`reshard_ranks`)
    for `fsdp-keep-pieces`. As in FSDP2, the number of all shards means `true`,
    and 1 means `false`.

    Input:

    ```mlir
    // fsdp-opt --fsdp-insert-unshard="reshard-after-forward=true"
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<4x4xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func @step(%x: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "loss"}, tensor<4x4xf32>) {
      %w = fsdp.load @w : tensor<4x4xf32>
      %y = aten.call "mm"(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %g = aten.call "mm"(%y, %w) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %y, %g : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<4x4xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func @step(%arg0: tensor<4x4xf32> {fsdp.input = "x"}) -> (tensor<4x4xf32> {fsdp.output = "loss"}, tensor<4x4xf32>) {
      %0 = fsdp.load @w : tensor<4x4xf32>
      %1 = fsdp.unshard %0 {region = #fsdp<region forward>, unit = ""} : tensor<4x4xf32>
      %2 = aten.call "mm"(%arg0, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      %3 = fsdp.unshard %0 {region = #fsdp<region backward>, unit = ""} : tensor<4x4xf32>
      %4 = aten.call "mm"(%2, %3) backward : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
      return %2, %4 : tensor<4x4xf32>, tensor<4x4xf32>
    }
    ```
  }];
  let options = [ReshardAfterForwardOption];
  let dependentDialects = ["::fsdp::FSDPDialect"];
}

def MovePrecisionCasts
    : ModulePass<"fsdp-move-precision-casts"> {
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

    It cannot fail: a cast that does not belong to a gather stays.

    Input:

    ```mlir
    // fsdp-opt --fsdp-move-precision-casts
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<4xf32> {trainable, unit = ""}
    func.func @step() -> tensor<4xbf16> {
      %w = fsdp.load @w : tensor<4xf32>
      %u = fsdp.unshard %w {region = #fsdp<region forward>, unit = ""} : tensor<4xf32>
      %c = aten.call "_to_copy"(%u) {dtype = bf16, fsdp.precision_cast} : (tensor<4xf32>) -> tensor<4xbf16>
      return %c : tensor<4xbf16>
    }
    ```

    Output:

    ```mlir
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<4xf32> {trainable, unit = ""}
    func.func @step() -> tensor<4xbf16> {
      %0 = fsdp.load @w : tensor<4xf32>
      %1 = aten.call "_to_copy"(%0) {dtype = bf16, fsdp.precision_cast} : (tensor<4xf32>) -> tensor<4xbf16>
      %2 = fsdp.unshard %1 {region = #fsdp<region forward>, unit = ""} : tensor<4xbf16>
      return %2 : tensor<4xbf16>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def FlattenState : ModulePass<"fsdp-flatten-state"> {
  let summary = "Lays a unit's parameters out as one range";
  let description = [{
    Input IR: `fsdp.unshard` and `fsdp.reduce_grad`, whole types.

    Output IR: each unit has flat parameters, and a flat optimizer state for each
    name of their optimizer states. Parameters share a flat one if they agree in
    element type, in names and types of optimizer states, in the dtype of their
    precision casts, and in whether they are updated. Parameters and their states
    keep their symbols and types, but lie in the flat ones, from element
    `flat_offset` on.

    An unshard of a parameter becomes one of the flat parameter and an
    `aten.call "as_strided"`. An `fsdp.pack` makes one gradient of the members'
    gradients. It has one `fsdp.reduce_grad`, and an `fsdp.update` of the elements
    [begin, end) per rule. Precision casts of parameters and of reduced gradients
    become those of the flat ones.

    Where `bucket-cap-mib` cuts a unit, it has more flat parameters, in the order
    of the members' first use; `fsdp-bucket-collectives` cuts the same way.

    What holds: members of one rule follow each other, each at a multiple of 64
    bytes. The flat parameter is cut into equal pieces of a multiple of 64 bytes
    in each dtype that it is moved in, or of a page with `gather=map`. Later
    passes see a parameter whose dimension 0 divides. Padding is never read, and
    its gradient is zero.

    Why: with dim0 every collective copies its members in and out. A piece of a
    flat parameter is what a rank sends; the whole of it, what kernels read.

    Input:

    ```mlir
    // fsdp-opt --fsdp-flatten-state
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @a parameter : tensor<3xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    fsdp.state @b parameter : tensor<5xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func @step() -> (tensor<3xf32>, tensor<5xf32>) {
      %a = fsdp.load @a : tensor<3xf32>
      %b = fsdp.load @b : tensor<5xf32>
      %ua = fsdp.unshard %a {region = #fsdp<region forward>, unit = ""} : tensor<3xf32>
      %ub = fsdp.unshard %b {region = #fsdp<region forward>, unit = ""} : tensor<5xf32>
      return %ua, %ub : tensor<3xf32>, tensor<5xf32>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @"/flat.0" parameter : tensor<32xf32> {is_flat, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    fsdp.state @a parameter : tensor<3xf32> {flat = @"/flat.0", flat_offset = 0 : i64, trainable, unit = ""}
    fsdp.state @b parameter : tensor<5xf32> {flat = @"/flat.0", flat_offset = 16 : i64, trainable, unit = ""}
    func.func @step() -> (tensor<3xf32>, tensor<5xf32>) {
      %0 = fsdp.load @"/flat.0" : tensor<32xf32>
      %1 = fsdp.unshard %0 {region = #fsdp<region forward>, unit = ""} : tensor<32xf32>
      %2 = aten.call "as_strided"(%1) {size = array<i64: 3>, storage_offset = 0 : i64, stride = array<i64: 1>} : (tensor<32xf32>) -> tensor<3xf32>
      %3 = fsdp.unshard %0 {region = #fsdp<region forward>, unit = ""} : tensor<32xf32>
      %4 = aten.call "as_strided"(%3) {size = array<i64: 5>, storage_offset = 16 : i64, stride = array<i64: 1>} : (tensor<32xf32>) -> tensor<5xf32>
      return %2, %4 : tensor<3xf32>, tensor<5xf32>
    }
    ```
  }];
  let options = [GatherOption, BucketCapOption, ClusterOption];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect"];
}

def Localize : ModulePass<"fsdp-localize"> {
  let summary = "Turns whole types into those of one rank's part";
  let description = [{
    Input IR: `fsdp.unshard`, `fsdp.reduce_grad`, `fsdp.sum_over_ranks`; whole
    types.

    Output IR: states have the type of one rank's padded part, and `global`.
    `fsdp.unshard` is `shard.all_gather`, and a slice where the dimension does
    not divide; `fsdp.reduce_grad` is a pad where it does not, the sum
    `shard.reduce_scatter`, and a division by the number of ranks, or by the
    unit's `gradient_divisor`. Where there are replicas, `shard.all_reduce` adds
    up their parts in front of the division. A collective among one rank is left
    out. Where another dimension than 0 is split, the parts travel as rows: an
    `aten.call "permute"` and a copy follow the gather and precede the sum.

    `fsdp.sum_over_ranks` is an `fsdp.all_reduce sum step` over the shards, and
    one over the replicas where there are any. It stays among one rank: what a
    plan computes is compared with the step's own sum.

    What holds: compute is as it was, on the same shapes.

    Why: all ranks have the same types (dimension 0 split as `torch.chunk`
    does, padded with rows of zeros), so one program serves them all.

    Input:

    ```mlir
    // fsdp-opt --fsdp-localize
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<3xf32> {sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func private @sgd(%p: tensor<*xf32>, %g: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %n = aten.call "sub.Tensor"(%p, %g) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %n : tensor<*xf32>
    }
    func.func @step() -> tensor<3xf32> {
      %w = fsdp.load @w : tensor<3xf32>
      %u = fsdp.unshard %w {region = #fsdp<region forward>, unit = ""} : tensor<3xf32>
      %g = aten.call "neg"(%u) backward : (tensor<3xf32>) -> tensor<3xf32>
      %r = fsdp.reduce_grad %g {unit = ""} : tensor<3xf32>
      fsdp.update @sgd @w, %r [] : tensor<3xf32>
      return %u : tensor<3xf32>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<2xf32> {global = tensor<3xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, trainable, unit = ""}
    func.func private @sgd(%arg0: tensor<*xf32>, %arg1: tensor<*xf32>) -> tensor<*xf32> attributes {fsdp.rule} {
      %0 = aten.call "sub.Tensor"(%arg0, %arg1) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
      return %0 : tensor<*xf32>
    }
    func.func @step() -> tensor<3xf32> {
      %0 = fsdp.load @w : tensor<2xf32>
      %all_gather = shard.all_gather %0 on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      %1 = aten.call "slice.Tensor"(%all_gather) {end = 3 : i64} : (tensor<4xf32>) -> tensor<3xf32>
      %2 = aten.call "neg"(%1) backward : (tensor<3xf32>) -> tensor<3xf32>
      %3 = aten.call "constant_pad_nd"(%2) backward {pad = array<i64: 0, 1>} : (tensor<3xf32>) -> tensor<4xf32>
      %reduce_scatter = shard.reduce_scatter %3 on @mesh grid_axes = [0] scatter_axis = 0 {fsdp.unit = ""} : tensor<4xf32> -> tensor<2xf32>
      %4 = aten.call "div.Scalar"(%reduce_scatter) backward {other = 2.000000e+00 : f64} : (tensor<2xf32>) -> tensor<2xf32>
      fsdp.update @sgd @w, %4 [] : tensor<2xf32>
      return %1 : tensor<3xf32>
    }
    ```
  }];
  let dependentDialects = ["::fsdp::FSDPDialect", "::fsdp::aten::AtenDialect",
                           "::mlir::shard::ShardDialect"];
}

def VerifySharded : ModulePass<"fsdp-verify-sharded"> {
  let summary = "Closes the sharded phase";
  let description = [{
    Input and output IR: sharded. Each constraint is an error with its number:

    - S1: every parameter belongs to a unit that exists, or is replicated.
    - S2: a sharding splits one dimension, over the shard axis of a grid that
      exists, and the local part has ceil(size / shards) of it; only dimension 0
      may be uneven.
    - S3: optimizer state of its parameter's shape is split as the parameter is.
      State of another shape is split if and only if the parameter is.
    - S4: a sharded parameter is read by `shard.all_gather` alone, or by a
      precision cast that is.
    - S5: the gradient of a sharded parameter is a mean, or a precision cast of
      one: a `shard.reduce_scatter` over the shards, then, where there are
      replicas, a `shard.all_reduce` over them, then a division by the unit's
      divisor (the number of ranks, where it has none of its own). With
      micro-batches, what the earlier ones gave is added: to the mean where
      there are no replicas, else to the sum over the shards.
    - S6: collectives carry `fsdp.unit`, the unit of their parameter, and
      gathers `fsdp.region`; forward reads no gather of backward.
    - S7: no `fsdp.unshard` and no `fsdp.reduce_grad` is left.
    - S8: a parameter is not read after its update.
    - S9: a state that lies in a flat one names a state that is flat, of its own
      role, unit and element type. It ends within that one, and before the next
      one begins; a parameter begins at a multiple of 64 bytes. Optimizer state
      lies in a flat state where its parameter does.
    - S10: a flat state is cut into equal pieces of a multiple of 64 bytes, of a
      page where it is `mapped`.
    - S11: programs name flat states, not what lies in them.
    - S12: the ranges of one flat parameter's updates do not overlap.
    - S13: @accumulate alone adds to gradient states; @step loads each once and
      then puts it back to -0.0. @accumulate does not sum over replicas.
    - S14: where the module bounds the norm of gradients, all updates of a
      program are scaled by one factor.
    - S15: only `fsdp.fetch` reads states on the host, and it reads no others.
      An update's states and its gradient are all on the host, or none of them
      is.
    - S16: a parameter is staged if and only if it is updated in another memory
      than its own. Its first update changes a copy of it, each later one what
      the one before gives; what the last one gives is stored in the parameter.

    Input:

    ```mlir
    // fsdp-opt --fsdp-verify-sharded
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> tensor<4xf32> {
      %w = fsdp.load @w : tensor<2xf32>
      %a = shard.all_gather %w on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      return %a : tensor<4xf32>
    }
    ```

    Output:

    ```mlir
    shard.grid @mesh(shape = 2) {fsdp.axes = [#fsdp.axis<"shard", shard>]}
    fsdp.unit "" root
    fsdp.state @w parameter : tensor<2xf32> {global = tensor<4xf32>, sharding = #fsdp.sharding<@mesh, [[0]]>, unit = ""}
    func.func @step() -> tensor<4xf32> {
      %0 = fsdp.load @w : tensor<2xf32>
      %all_gather = shard.all_gather %0 on @mesh grid_axes = [0] gather_axis = 0 {fsdp.region = #fsdp<region forward>, fsdp.unit = ""} : tensor<2xf32> -> tensor<4xf32>
      return %all_gather : tensor<4xf32>
    }
    ```
  }];
}

#endif // FSDP_SHARD_PASSES_TD

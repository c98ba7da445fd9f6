// Attributes of the fsdp dialect.

#ifndef FSDP_ATTRIBUTES_TD
#define FSDP_ATTRIBUTES_TD

include "fsdp/Dialect/FSDP/FSDPBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class FSDP_Attr<string name, string attrMnemonic>
    : AttrDef<FSDP_Dialect, name> {
  let mnemonic = attrMnemonic;
}

def FSDP_RoleEnum : I32EnumAttr<"Role", "what a state is", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Optimizer", 1, "optimizer">,
    I32EnumAttrCase<"Buffer", 2, "buffer">,
    I32EnumAttrCase<"Constant", 3, "constant">,
    I32EnumAttrCase<"Gradient", 4, "gradient">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_RoleAttr : EnumAttr<FSDP_Dialect, FSDP_RoleEnum, "role"> {
  let assemblyFormat = "$value";
}

def FSDP_ReduceOpEnum : I32EnumAttr<"ReduceOp", "how ranks' numbers become one", [
    I32EnumAttrCase<"Sum", 0, "sum">,
    I32EnumAttrCase<"Max", 1, "max">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_ReduceOpAttr : EnumAttr<FSDP_Dialect, FSDP_ReduceOpEnum, "reduce_op"> {
  let assemblyFormat = "$value";
}

def FSDP_CollectiveKindEnum : I32EnumAttr<"CollectiveKind", "what is exchanged", [
    I32EnumAttrCase<"AllGather", 0, "all_gather">,
    I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,
    I32EnumAttrCase<"AllReduce", 2, "all_reduce">,
    I32EnumAttrCase<"AllToAll", 3, "all_to_all">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_CollectiveKindAttr
    : EnumAttr<FSDP_Dialect, FSDP_CollectiveKindEnum, "collective_kind"> {
  let assemblyFormat = "$value";
}

def FSDP_CollectiveRoleEnum : I32EnumAttr<"CollectiveRole", "what a collective is for", [
    I32EnumAttrCase<"Parameter", 0, "parameter">,
    I32EnumAttrCase<"Gradient", 1, "gradient">,
    I32EnumAttrCase<"Norm", 2, "norm">,
    I32EnumAttrCase<"Overflow", 3, "overflow">,
    I32EnumAttrCase<"Skip", 4, "skip">,
    I32EnumAttrCase<"Step", 5, "step">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_CollectiveRoleAttr
    : EnumAttr<FSDP_Dialect, FSDP_CollectiveRoleEnum, "collective_role"> {
  let assemblyFormat = "$value";
}

def FSDP_ProgramRegionEnum : I32EnumAttr<"ProgramRegion",
    "the part of a program that reads what is gathered or fetched", [
    I32EnumAttrCase<"Forward", 0, "forward">,
    I32EnumAttrCase<"Backward", 1, "backward">,
    I32EnumAttrCase<"Update", 2, "update">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_ProgramRegionAttr
    : EnumAttr<FSDP_Dialect, FSDP_ProgramRegionEnum, "region"> {
  let assemblyFormat = "$value";
}

def FSDP_AxisRoleEnum : I32EnumAttr<"AxisRole", "what an axis of the mesh is for", [
    I32EnumAttrCase<"Replicate", 0, "replicate">,
    I32EnumAttrCase<"Shard", 1, "shard">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_AxisAttr : FSDP_Attr<"Axis", "axis"> {
  let summary = "An axis of the mesh: its name, and what it is for";
  let description = [{
    States are cut over a `shard` axis, along which ranks gather and reduce
    them. Ranks along a `replicate` axis have the same parts, and add up what
    each of them has reduced. A grid has one for each of its dimensions, as
    `fsdp.axes`.

    ```mlir
    shard.grid @mesh(shape = 2x4) {fsdp.axes = [#fsdp.axis<"dp", replicate>, #fsdp.axis<"fsdp", shard>]}
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name,
                        EnumParameter<FSDP_AxisRoleEnum>:$role);
  let assemblyFormat = "`<` $name `,` $role `>`";
}

def FSDP_InitKindEnum : I32EnumAttr<"InitKind", "how a first value comes", [
    I32EnumAttrCase<"Fill", 0, "fill">,
    I32EnumAttrCase<"Uniform", 1, "uniform">,
    I32EnumAttrCase<"Normal", 2, "normal">,
    I32EnumAttrCase<"Multiply", 3, "multiply">,
    I32EnumAttrCase<"Add", 4, "add">,
    I32EnumAttrCase<"Clamp", 5, "clamp">,
    I32EnumAttrCase<"Erfinv", 6, "erfinv">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_InitAttr : FSDP_Attr<"Init", "init"> {
  let summary = "One step of the recipe for a state's first value";
  let description = [{
    A function of each element's old value and, for `uniform` and `normal`, of
    a random number that depends on the seed, `draw` and the element's position
    in the whole tensor alone. So a rank computes what it holds by itself, and
    no pass has to know: whatever the sharding, the values are the same.

    `values` are the number to fill with, to multiply by or to add, the bounds,
    or mean and standard deviation. With `sizes` the step is for the elements of
    that strided view of the whole, row-major tensor; else for all of them.

    ```mlir
    #fsdp.init<uniform, values = [-1.0e-01, 1.0e-01], draw = 3>
    #fsdp.init<fill, values = [0.0], offset = 64, sizes = [16], strides = [1]>
    ```
  }];
  let parameters = (ins EnumParameter<FSDP_InitKindEnum>:$kind,
      OptionalParameter<"::mlir::DenseF64ArrayAttr">:$values,
      DefaultValuedParameter<"int64_t", "0">:$draw,
      DefaultValuedParameter<"int64_t", "0">:$offset,
      OptionalParameter<"::mlir::DenseI64ArrayAttr">:$sizes,
      OptionalParameter<"::mlir::DenseI64ArrayAttr">:$strides);
  let assemblyFormat = "`<` $kind (`,` struct($values, $draw, $offset, $sizes, $strides)^)? `>`";
  let genVerifyDecl = 1;
}

def FSDP_InitArrayAttr
    : TypedArrayAttrBase<FSDP_InitAttr, "recipe for a first value">;

def FSDP_ImplementationEnum
    : I32EnumAttr<"Implementation", "which of an optimizer's implementations", [
    I32EnumAttrCase<"ForLoop", 0, "for_loop">,
    I32EnumAttrCase<"Foreach", 1, "foreach">,
    I32EnumAttrCase<"Fused", 2, "fused">]> {
  let cppNamespace = "::fsdp";
  let genSpecializedAttr = 0;
}

def FSDP_OptimizerAttr : FSDP_Attr<"Optimizer", "optimizer"> {
  let summary = "The optimizer that a rule was captured from";
  let description = [{
    On a rule, as `fsdp.optimizer`. The rule's body says what is computed; this
    says what it is called, so that a device's own kernel for it can be chosen
    without recognising anything. A bare name in lower case is torch.optim's
    class; any other has its module in front. `hyperparameters` are those of the
    parameter group that do not change from step to step.

    ```mlir
    #fsdp.optimizer<"adamw", for_loop, {amsgrad = false, betas = array<f64: 0.9, 0.999>, eps = 1.0e-08 : f64, maximize = false, weight_decay = 0.01 : f64}>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name,
      EnumParameter<FSDP_ImplementationEnum>:$implementation,
      "::mlir::DictionaryAttr":$hyperparameters);
  let assemblyFormat =
      "`<` $name `,` $implementation `,` $hyperparameters `>`";
}

def FSDP_HyperparameterAttr : FSDP_Attr<"Hyperparameter", "hyperparameter"> {
  let summary = "A number of a parameter group that steps read, and its value";
  let description = [{
    `name` is PyTorch's key in the group; of a tuple, such as Adam's betas, the
    member's number follows. The value holds where no schedule says another one.

    ```mlir
    #fsdp.hyperparameter<"lr" of 0 = 1.000000e-03 : f64>
    #fsdp.hyperparameter<"betas.0" of 0 = 9.000000e-01 : f64>
    ```
  }];
  let parameters = (ins StringRefParameter<>:$name, "int64_t":$group,
                        "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` $name `of` $group `=` $value `>`";
}

def FSDP_ShardingAttr : FSDP_Attr<"Sharding", "sharding"> {
  let summary = "How a tensor is split over a grid";
  let description = [{
    The fields of `shard.sharding`: the grid, and per tensor dimension the grid
    axes that split it. Trailing dimensions that are not split may be left out.

    ```mlir
    #fsdp.sharding<@mesh, [[0]]>   // dimension 0 is split over axis 0
    ```
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$grid,
                        "::mlir::shard::GridAxesArrayAttr":$splitAxes);
  let assemblyFormat = "`<` $grid `,` $splitAxes `>`";
}

def FSDP_ShardsAttr : FSDP_Attr<"Shards", "shards"> {
  let summary = "The ranks that run something: some of the shards";
  let description = [{
    Those whose number along the shard axis is at least `first` and less than
    `end`; the others skip it. On an `aten.call` it is `fsdp.shards`. What some
    ranks alone compute has no value on the others, so that they alone read it.

    ```mlir
    #fsdp.shards<0, 2>
    ```
  }];
  let parameters = (ins "int64_t":$first, "int64_t":$end);
  let assemblyFormat = "`<` $first `,` $end `>`";
  let genVerifyDecl = 1;
}

def FSDP_MemberAttr : FSDP_Attr<"Member", "member"> {
  let summary = "Where one tensor lies in a bucket";
  let description = [{
    A bucket is rank-major: `blocks` equal pieces, one per rank (or one alone,
    this rank's own). In each piece the member has `bytes` bytes at `offset`,
    a multiple of 64 from the piece's start. In the tensor its blocks are
    contiguous, one after the other. With `shards` these ranks alone copy it;
    others may have another member there.
  }];
  let parameters = (ins "int64_t":$offset, "int64_t":$bytes, "int64_t":$blocks,
                        OptionalParameter<"::fsdp::ShardsAttr">:$shards);
  let builders = [
    AttrBuilder<(ins "int64_t":$offset, "int64_t":$bytes, "int64_t":$blocks), [{
      return $_get($_ctxt, offset, bytes, blocks, ShardsAttr());
    }]>,
  ];
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_MemberArrayAttr
    : TypedArrayAttrBase<FSDP_MemberAttr, "members of a bucket">;

def FSDP_PieceAttr : FSDP_Attr<"Piece", "piece"> {
  let summary = "Blocks of bytes that a copy moves, or fills with zero";
  let description = [{
    `blocks` blocks of `bytes`, from one of the copy's sources (-1: they become
    zero) to one of its destinations. Offsets and strides are bytes, from the
    first byte of each value's place. What is 0, and one block, is left out.

    With `owners` the source is cut into as many equal parts, one for each of so
    many neighbours along the shard axis. A rank copies its own. With `shards`
    these ranks alone copy the piece.
  }];
  let parameters = (ins
      DefaultValuedParameter<"int64_t", "0">:$source,
      DefaultValuedParameter<"int64_t", "0">:$destination,
      "int64_t":$bytes,
      DefaultValuedParameter<"int64_t", "1">:$blocks,
      DefaultValuedParameter<"int64_t", "0">:$source_offset,
      DefaultValuedParameter<"int64_t", "0">:$destination_offset,
      DefaultValuedParameter<"int64_t", "0">:$source_stride,
      DefaultValuedParameter<"int64_t", "0">:$destination_stride,
      DefaultValuedParameter<"int64_t", "1">:$owners,
      OptionalParameter<"::fsdp::ShardsAttr">:$shards);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_PieceArrayAttr
    : TypedArrayAttrBase<FSDP_PieceAttr, "pieces of a copy">;

def FSDP_PlaceAttr : FSDP_Attr<"Place", "place"> {
  let summary = "The bytes that a value owns: arena, offset and length";
  let description = [{
    Arena 0 is the rank's own memory, arena 1 the window of mapped gathers,
    arena 2 host memory. The offset is a multiple of 64.
  }];
  let parameters = (ins "int64_t":$arena, "int64_t":$offset, "int64_t":$bytes);
  let assemblyFormat = "`<` $arena `,` $offset `,` $bytes `>`";
  let genVerifyDecl = 1;
}

#endif // FSDP_ATTRIBUTES_TD

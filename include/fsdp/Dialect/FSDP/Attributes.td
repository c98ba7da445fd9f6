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
    I32EnumAttrCase<"Constant", 3, "constant">]> {
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

def FSDP_MemberAttr : FSDP_Attr<"Member", "member"> {
  let summary = "Where one tensor lies in a bucket";
  let description = [{
    A bucket is rank-major: `blocks` equal pieces, one per rank (or one alone,
    this rank's own). In each piece the member has `bytes` bytes at `offset`,
    a multiple of 64 from the piece's start. In the tensor its blocks are
    contiguous, one after the other.
  }];
  let parameters = (ins "int64_t":$offset, "int64_t":$bytes, "int64_t":$blocks);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def FSDP_MemberArrayAttr
    : TypedArrayAttrBase<FSDP_MemberAttr, "members of a bucket">;

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

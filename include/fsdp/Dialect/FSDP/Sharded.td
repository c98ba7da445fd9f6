// Phase 2, sharded: who owns what, and where parameters are gathered and
// gradients reduced. Naive and easy to check.

#ifndef FSDP_SHARDED_TD
#define FSDP_SHARDED_TD

include "fsdp/Dialect/FSDP/Attributes.td"
include "fsdp/Dialect/FSDP/Interfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def FSDP_UnitOp : FSDP_Op<"unit"> {
  let summary = "Parameters that are gathered and reduced together";
  let description = [{
    Units stand in the order of their first use in the step. Like modules they
    are named by strings: the path of the module they come from, or `unit.N` for
    units cut by size. A root has no other unit around it: the model, which owns
    what no other unit does. `reshard` says whether the whole parameters are
    freed after forward; where it is absent, the pipeline's option does. With
    `reshard_ranks` forward leaves a secondary shard over so many neighbours
    behind, and backward gathers among these alone. `reduce_dtype` is what its
    gradients are reduced in; where it is absent, the pipeline's option says so,
    or else it is what they are computed in. `modules` are the paths of all its
    modules where it has several. `gradient_divisor` is what the sums of its
    gradients are divided by; where it is absent, the number of ranks, so that
    they are means. With `offload` its shards, gradients and optimizer state are
    on the host, in pinned memory unless `pin_memory` is false.

    `prefetch_forward` and `prefetch_backward` name the units whose gathers start
    where this one's forward or backward begins, in this order; where they are
    absent, the schedule decides.

    Units that the model names are there from the captured phase on.

    ```mlir
    fsdp.unit "" root
    fsdp.unit "blocks.0" {reduce_dtype = f32, reshard = false}
    fsdp.unit "blocks.1" {offload, pin_memory = false}
    fsdp.unit "head" {gradient_divisor = 1.0 : f64, prefetch_backward = ["blocks.1", "blocks.0"]}
    ```
  }];
  let arguments = (ins StrAttr:$unit_name, UnitAttr:$root,
                       OptionalAttr<BoolAttr>:$reshard,
                       OptionalAttr<FSDP_Count>:$reshard_ranks,
                       OptionalAttr<TypeAttrOf<AnyFloat>>:$reduce_dtype,
                       OptionalAttr<StrArrayAttr>:$modules, UnitAttr:$offload,
                       OptionalAttr<BoolAttr>:$pin_memory,
                       OptionalAttr<F64Attr>:$gradient_divisor,
                       OptionalAttr<StrArrayAttr>:$prefetch_forward,
                       OptionalAttr<StrArrayAttr>:$prefetch_backward);
  let assemblyFormat = "$unit_name (`root` $root^)? attr-dict";
  let builders = [
    /// A unit that leaves all else to the pipeline.
    OpBuilder<(ins "::mlir::StringAttr":$unit_name, "bool":$root), [{
      auto &properties = $_state.getOrAddProperties<Properties>();
      properties.unit_name = unit_name;
      if (root)
        properties.root = $_builder.getUnitAttr();
    }]>
  ];
  let hasVerifier = 1;
}

// Collectives of whole tensors: over the mesh's shard axis, and a reduction over
// its replicas too.
class FSDP_GlobalCollective<string mnemonic, string kind, string role>
    : FSDP_Op<mnemonic, [Pure, AllTypesMatch<["input", "result"]>,
                         FSDP_CollectiveOpInterface]> {
  let extraClassDeclaration = [{
    static ::fsdp::CollectiveKind getKind() {
      return ::fsdp::CollectiveKind::}] # kind # [{;
    }
    static ::fsdp::CollectiveRole getRole() {
      return ::fsdp::CollectiveRole::}] # role # [{;
    }
    static bool isGlobal() { return true; }
    ::llvm::SmallVector<int64_t> getMeshAxes();
  }];
}

def FSDP_UnshardOp : FSDP_GlobalCollective<"unshard", "AllGather", "Parameter"> {
  let summary = "Makes a sharded parameter whole for one region's readers";
  let description = [{
    Types are still those of the whole tensor. The region keeps `--cse` from
    merging the gather of forward with that of backward, which would keep the
    parameter alive between them.
  }];
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit, FSDP_ProgramRegionAttr:$region);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let hasVerifier = 1;
}

def FSDP_ReduceGradOp
    : FSDP_GlobalCollective<"reduce_grad", "ReduceScatter", "Gradient"> {
  let summary = "The mean of a gradient over all ranks";
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def FSDP_AccumulateOp : FSDP_Op<"accumulate", [
    FSDP_TimelineOpInterface,
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface,
                              ["getReadStates", "getWrittenStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]> {
  let summary = "Adds a gradient to what earlier micro-batches gave, in place";
  let description = [{
    The state holds a gradient from one program to the next. Between steps it
    is -0.0, to which adding any number gives that number in every bit.

    ```mlir
    fsdp.accumulate %g, @"blocks.0.w/grad" : tensor<10x128xf32>
    ```
  }];
  let arguments = (ins FSDP_Tensor:$value, FlatSymbolRefAttr:$state);
  let assemblyFormat = "$value `,` $state attr-dict `:` type($value)";
}

def FSDP_FetchOp : FSDP_Op<"fetch", [
    Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<FSDP_StartableOpInterface>]> {
  let summary = "Copies a state's part from the host for one region's readers";
  let description = [{
    The region is that of `fsdp.unshard`: it keeps the copy that forward reads
    from living until backward. What is staged for an update has the region
    `update`.
  }];
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit, FSDP_ProgramRegionAttr:$region);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def FSDP_OffloadOp : FSDP_Op<"offload", [
    Pure, AllTypesMatch<["input", "result"]>,
    DeclareOpInterfaceMethods<FSDP_StartableOpInterface>]> {
  let summary = "Copies a gradient, or a parameter that is staged, to the host, where it is used";
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

#endif // FSDP_SHARDED_TD

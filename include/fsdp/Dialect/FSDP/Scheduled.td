// Phase 3, scheduled: buckets, and collectives in flight. The order of the ops
// in the block is the schedule.

#ifndef FSDP_SCHEDULED_TD
#define FSDP_SCHEDULED_TD

include "fsdp/Dialect/FSDP/Attributes.td"
include "fsdp/Dialect/FSDP/Interfaces.td"
include "fsdp/Dialect/FSDP/Types.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def FSDP_PackOp : FSDP_Op<"pack", [Pure, FSDP_TimelineOpInterface]> {
  let summary = "Copies tensors into a bucket";
  let description = [{
    Member i says where input i goes. Bytes between members are undefined.
    Members may be of some shards, each with all that is in the bucket there.

    ```mlir
    %in = fsdp.pack %a, %b {members = [#fsdp.member<offset = 0, bytes = 1536, blocks = 1>, …]}
        : (tensor<3x128xf32>, tensor<3xf32>) -> tensor<1600xui8>
    ```
  }];
  let arguments = (ins Variadic<FSDP_Tensor>:$inputs,
                       FSDP_MemberArrayAttr:$members);
  let results = (outs FSDP_Tensor:$bucket);
  let assemblyFormat = [{
    $inputs attr-dict `:` functional-type($inputs, $bucket)
  }];
  let hasVerifier = 1;
}

def FSDP_UnpackOp : FSDP_Op<"unpack", [Pure, FSDP_TimelineOpInterface]> {
  let summary = "Copies tensors out of a bucket";
  let arguments = (ins FSDP_Tensor:$bucket, FSDP_MemberArrayAttr:$members);
  let results = (outs Variadic<FSDP_Tensor>:$outputs);
  let assemblyFormat = [{
    $bucket attr-dict `:` functional-type($bucket, $outputs)
  }];
  let hasVerifier = 1;
}

def FSDP_KeepOp : FSDP_Op<"keep", [Pure, FSDP_TimelineOpInterface]> {
  let summary = "This rank's part of a gathered bucket, kept for backward";
  let description = [{
    One of `ranks` equal parts, of which as many neighbours along the shard axis
    have one each, in their order. Among these alone backward gathers the bucket
    again.

    ```mlir
    %kept = fsdp.keep %whole {ranks = 2 : i64} : tensor<8192xui8> -> tensor<4096xui8>
    %again = fsdp.all_gather %kept {unit = "blocks.0", region = #fsdp<region backward>, ranks = 2 : i64} : tensor<4096xui8> -> tensor<8192xui8>
    ```
  }];
  let arguments = (ins FSDP_Tensor:$input, FSDP_Count:$ranks);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasVerifier = 1;
}

// A collective is the same op in two forms, which differ in what they give: the
// result, or a future. What is in flight is pinned: start and wait have effects,
// so that nothing merges, drops or reorders them. From there on the order is the
// schedule.
class FSDP_Startable<string mnemonic, list<Trait> traits = []>
    : FSDP_Op<mnemonic, traits # [
          Pure, DeclareOpInterfaceMethods<FSDP_StartableOpInterface>]>;
class FSDP_Start<string mnemonic, list<Trait> traits = []>
    : FSDP_Op<mnemonic, traits # [
          FSDP_StartOpInterface,
          DeclareOpInterfaceMethods<FSDP_TimelineOpInterface, ["chooseStream"]>,
          DeclareOpInterfaceMethods<MemoryEffectsOpInterface>]>;

/// What the two forms of a collective say of themselves, besides attributes.
class FSDP_SaysOfItself<string kind, string more = ""> {
  code declaration = [{
    static ::fsdp::CollectiveKind getKind() {
      return ::fsdp::CollectiveKind::}] # kind # [{;
    }
  }] # more;
}
def FSDP_OfAllGather : FSDP_SaysOfItself<"AllGather", [{
    static ::fsdp::CollectiveRole getRole() {
      return ::fsdp::CollectiveRole::Parameter;
    }
    bool isForUpdates() { return getRegion() == ::fsdp::ProgramRegion::Update; }
    static bool isIncoming() { return true; }
    static bool isChained() { return true; }
  }]>;
def FSDP_OfReduceScatter : FSDP_SaysOfItself<"ReduceScatter", [{
    static ::fsdp::CollectiveRole getRole() {
      return ::fsdp::CollectiveRole::Gradient;
    }
    static bool isIncoming() { return false; }
  }]>;
def FSDP_OfAllReduce : FSDP_SaysOfItself<"AllReduce", [{
    ::fsdp::ReduceOp getReduceOp() { return getOp(); }
    static bool isIncoming() { return false; }
  }]>;

def FSDP_OfAllToAll : FSDP_SaysOfItself<"AllToAll", [{
    static ::fsdp::CollectiveRole getRole() {
      return ::fsdp::CollectiveRole::Parameter;
    }
    static ::std::optional<::fsdp::ProgramRegion> getRegion() { return {}; }
    static bool isForUpdates() { return true; }
    static bool isIncoming() { return false; }
  }]>;

def FSDP_AllGatherOp : FSDP_Startable<"all_gather", [FSDP_CollectiveOpInterface]> {
  let summary = "Every rank's piece of a bucket, one after the other";
  let description = [{
    The gather is over axes of the mesh, and of a bucket of bytes or of a flat
    state's elements. A `mapped` gather of a flat state gives the place where
    the ranks' pieces can be read; nothing moves where they share memory. With
    `ranks` it is among so many neighbours, of what each of them kept
    (`fsdp.keep`).
  }];
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit, FSDP_ProgramRegionAttr:$region,
                       UnitAttr:$mapped, FSDP_CountOr<"0">:$ranks,
                       FSDP_MeshAxes:$axes);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = FSDP_OfAllGather.declaration;
  let hasVerifier = 1;
}

def FSDP_AllGatherStartOp
    : FSDP_Start<"all_gather_start", [FSDP_CollectiveOpInterface]> {
  let summary = "Starts an all-gather";
  let arguments = FSDP_AllGatherOp.arguments;
  let results = (outs FSDP_FutureType:$future);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($future)";
  let extraClassDeclaration = FSDP_OfAllGather.declaration;
  let hasVerifier = 1;
}

def FSDP_ReduceScatterOp
    : FSDP_Startable<"reduce_scatter", [FSDP_CollectiveOpInterface]> {
  let summary = "This rank's piece of the sum of all ranks' buckets";
  let description = [{
    It is over axes of the mesh. The bucket has a row per rank, or is flat and
    has a piece per rank. The sum is in rank order, in the bucket's element
    type, and divided by `divisor`.
  }];
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit,
                       FSDP_Divisor:$divisor, FSDP_MeshAxes:$axes);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let extraClassDeclaration = FSDP_OfReduceScatter.declaration;
  let hasVerifier = 1;
}

def FSDP_ReduceScatterStartOp
    : FSDP_Start<"reduce_scatter_start", [FSDP_CollectiveOpInterface]> {
  let summary = "Starts a reduce-scatter";
  let arguments = FSDP_ReduceScatterOp.arguments;
  let results = (outs FSDP_FutureType:$future);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($future)";
  let extraClassDeclaration = FSDP_OfReduceScatter.declaration;
  let hasVerifier = 1;
}

def FSDP_AllReduceOp : FSDP_Startable<"all_reduce", [
    FSDP_CollectiveOpInterface, AllTypesMatch<["input", "result"]>]> {
  let summary = "All ranks' tensors added up, or the largest of each element";
  let description = [{
    It is over axes of the mesh. A sum is in rank order, in the tensor's element
    type, and divided by `divisor`. For a maximum, NaN is larger than any
    number. The op says what it is for: a `gradient` over replicas, or a number
    over all gradients, their `norm` or whether one has an `overflow`; or `skip`:
    which of them some rank has; or it is a sum that the `step` itself asks for.

    ```mlir
    %norm = fsdp.all_reduce max norm %mine : tensor<f64>
    %mean = fsdp.all_reduce sum gradient %g {unit = "blocks.0", axes = array<i64: 1>, divisor = 4.0 : f64} : tensor<640xf32>
    ```
  }];
  let arguments = (ins FSDP_ReduceOpAttr:$op, FSDP_CollectiveRoleAttr:$role,
                       FSDP_Tensor:$input, OptionalAttr<StrAttr>:$unit,
                       FSDP_MeshAxes:$axes, FSDP_Divisor:$divisor);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$op $role $input attr-dict `:` type($result)";
  let extraClassDeclaration = FSDP_OfAllReduce.declaration;
  let hasVerifier = 1;
}

def FSDP_AllReduceStartOp : FSDP_Start<"all_reduce_start", [
    FSDP_CollectiveOpInterface,
    TypesMatchWith<"input is the future's tensor", "future", "input",
                   "::llvm::cast<::fsdp::FutureType>($_self).getType()">]> {
  let summary = "Starts an all-reduce";
  let arguments = FSDP_AllReduceOp.arguments;
  let results = (outs FSDP_FutureType:$future);
  let assemblyFormat = "$op $role $input attr-dict `:` type($future)";
  let extraClassDeclaration = FSDP_OfAllReduce.declaration;
  let hasVerifier = 1;
}

def FSDP_AllToAllOp : FSDP_Startable<"all_to_all", [
    FSDP_CollectiveOpInterface, AllTypesMatch<["input", "result"]>]> {
  let summary = "Of every rank the piece that it has for this one";
  let description = [{
    It is over axes of the mesh, of a bucket that has a row of bytes per rank.
    Row i goes to rank i, and row i of the result came from rank i. Where a row
    has what a rank holds of one matrix, each rank gets a whole matrix. Where a
    row has a part of the rank's own matrix, each rank gets its rows of all
    matrices.

    ```mlir
    %mine = fsdp.all_to_all %rows {unit = "blocks.0"} : tensor<2x64xui8>
    ```
  }];
  let arguments = (ins AnyRankedTensor:$input, StrAttr:$unit,
                       FSDP_MeshAxes:$axes);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
  let extraClassDeclaration = FSDP_OfAllToAll.declaration;
  let hasVerifier = 1;
}

def FSDP_AllToAllStartOp : FSDP_Start<"all_to_all_start", [
    FSDP_CollectiveOpInterface,
    TypesMatchWith<"input is the future's tensor", "future", "input",
                   "::llvm::cast<::fsdp::FutureType>($_self).getType()">]> {
  let summary = "Starts an all-to-all";
  let arguments = FSDP_AllToAllOp.arguments;
  let results = (outs FSDP_FutureType:$future);
  let assemblyFormat = "$input attr-dict `:` type($future)";
  let extraClassDeclaration = FSDP_OfAllToAll.declaration;
  let hasVerifier = 1;
}

def FSDP_FetchStartOp : FSDP_Start<"fetch_start", [
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface, ["getWrittenStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Starts to copy tensors from the host";
  let description = [{
    One tensor as it is, or several into a bucket whose `members` are those of
    `fsdp.pack`. One may go `into` a state of the device: a parameter that was
    updated on the host.

    ```mlir
    %f = fsdp.fetch_start %a, %b {members = [#fsdp.member<offset = 0, bytes = 1536, blocks = 1>, …], unit = "blocks.0", region = #fsdp<region forward>}
        : (tensor<3x128xf32>, tensor<3xf32>) -> !fsdp.future<tensor<1600xui8>>
    ```
  }];
  let arguments = (ins Variadic<FSDP_Tensor>:$inputs,
                       OptionalAttr<FSDP_MemberArrayAttr>:$members,
                       StrAttr:$unit, FSDP_ProgramRegionAttr:$region,
                       OptionalAttr<FlatSymbolRefAttr>:$into);
  let results = (outs FSDP_FutureType:$future);
  let assemblyFormat = [{
    $inputs attr-dict `:` functional-type($inputs, $future)
  }];
  let extraClassDeclaration = [{
    static bool isIncoming() { return true; }
  }];
  let hasVerifier = 1;
}

def FSDP_OffloadStartOp : FSDP_Start<"offload_start", [
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface, ["getWrittenStates"]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    TypesMatchWith<"the future's tensor is the input", "future", "input",
                   "::llvm::cast<::fsdp::FutureType>($_self).getType()">]> {
  let summary = "Starts to copy a gradient, or a bucket of them, to the host";
  let description = [{
    Or a parameter, for an update that runs there; or one that was updated on
    the device, `into` its state.

    ```mlir
    %g = fsdp.offload_start %mean {unit = "blocks.0"} : !fsdp.future<tensor<640xf32>>
    %w = fsdp.offload_start %new {unit = "blocks.0", into = @"blocks.0.w"} : !fsdp.future<tensor<3x128xf32>>
    ```
  }];
  let arguments = (ins FSDP_Tensor:$input, StrAttr:$unit,
                       OptionalAttr<FlatSymbolRefAttr>:$into);
  let results = (outs FSDP_FutureType:$future);
  let assemblyFormat = "$input attr-dict `:` type($future)";
  let extraClassDeclaration = [{
    static bool isIncoming() { return false; }
    static bool isToHost() { return true; }
    static ::std::optional<::fsdp::ProgramRegion> getRegion() { return {}; }
    static bool isChained() { return true; }
  }];
}

def FSDP_WaitOp : FSDP_Op<"wait", [
    DeclareOpInterfaceMethods<FSDP_TimelineOpInterface, ["chooseStream"]>,
    DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
    TypesMatchWith<"result is the future's tensor", "future", "result",
                   "::llvm::cast<::fsdp::FutureType>($_self).getType()">]> {
  let summary = "The tensor of a collective or a copy, once it is complete";
  let arguments = (ins FSDP_FutureType:$future);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = "$future attr-dict `:` type($future)";
}

#endif // FSDP_SCHEDULED_TD

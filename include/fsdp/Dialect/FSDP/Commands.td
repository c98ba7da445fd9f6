// Phase 4, commands: the closed set that a rank executes.

#ifndef FSDP_COMMANDS_TD
#define FSDP_COMMANDS_TD

include "fsdp/Dialect/FSDP/Attributes.td"
include "fsdp/Dialect/FSDP/Interfaces.td"
include "fsdp/Dialect/FSDP/Seconds.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

// Values are memory and commands write it, so all have effects: nothing is
// merged, dropped or moved any more.
class FSDP_Cmd<string name, list<Trait> traits = []>
    : FSDP_Op<"cmd." # name, traits # [
          FSDP_TimelineOpInterface, MemoryEffects<[MemRead, MemWrite]>]>;

def FSDP_CmdValueOp : FSDP_Op<"cmd.value", [
    AttrSizedOperandSegments, MemoryEffects<[MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A tensor at a fixed place";
  let description = [{
    Declares what commands read and write; it does nothing itself. With `state`
    it is that state's memory. With `of` it is a view of another value and
    shares its place; the call that makes the view says how. With `part of` its
    place lies inside that of another value: to write this one is to write those
    bytes of that one. A program's arguments are values too, with their place as
    attribute `fsdp.place`.

    ```mlir
    %w = fsdp.cmd.value state @w {place = #fsdp.place<0, 0, 5120>} : tensor<10x128xf32>
    %a = fsdp.cmd.value {place = #fsdp.place<0, 5120, 40>} : tensor<10xf32>
    %b = fsdp.cmd.value part of %a : tensor<10xf32> {place = #fsdp.place<0, 5120, 16>} : tensor<4xf32>
    %t = fsdp.cmd.value of %w : tensor<10x128xf32> {place = #fsdp.place<0, 0, 5120>} : tensor<128x10xf32, #aten.strides<[1, 128]>>
    ```
  }];
  let arguments = (ins Optional<FSDP_Tensor>:$base,
                       Optional<FSDP_Tensor>:$whole,
                       OptionalAttr<FlatSymbolRefAttr>:$state,
                       FSDP_PlaceAttr:$place);
  let results = (outs FSDP_Tensor:$result);
  let assemblyFormat = [{
    (`of` $base^ `:` type($base))? (`part` `of` $whole^ `:` type($whole))?
    (`state` $state^)? attr-dict `:` type($result)
  }];
}

def FSDP_CmdAtenOp : FSDP_Cmd<"aten", [AttrSizedOperandSegments]> {
  let summary = "Calls an operator of PyTorch";
  let description = [{
    `slots`, `args` and `measured` are those of `aten.call`. `results` has an entry per
    tensor the operator returns: an index into the outputs, or -1 where nothing
    is produced. A `view` computes nothing: its outputs look into an input.
    `recompute` names the region of which backward repeats this call. With
    `shards` these ranks alone make it.

    ```mlir
    fsdp.cmd.aten "mm"(%a, %b) to (%c) {slots = array<i32: 1, 1>, args = {}, results = array<i32: 0>}
        : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    ```
  }];
  let arguments = (ins StrAttr:$callee, Variadic<AnyType>:$inputs,
                       Variadic<FSDP_Tensor>:$outputs,
                       DenseI32ArrayAttr:$slots, DictionaryAttr:$args,
                       DenseI32ArrayAttr:$results, UnitAttr:$view,
                       OptionalAttr<StrAttr>:$recompute,
                       OptionalAttr<FSDP_ShardsAttr>:$shards,
                       OptionalAttr<FSDP_Seconds>:$measured,
                       FSDP_CountOr<"0">:$stream);
  let assemblyFormat = [{
    $callee `(` $inputs `)` `to` `(` $outputs `)` attr-dict `:`
    functional-type($inputs, $outputs)
  }];
}

def FSDP_CmdUpdateOp : FSDP_Cmd<"update", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<FSDP_StateAccessOpInterface,
                              ["getReadStates", "getWrittenStates"]>]> {
  let summary = "Runs a rule on a parameter and its state, in place";
  let description = [{
    `begin`, `end`, `given`, `scale` and `skip` are those of `fsdp.update`. Where there
    is a `staged` copy of the parameter, that is what is written.
  }];
  let arguments = (ins FlatSymbolRefAttr:$rule, FlatSymbolRefAttr:$parameter,
                       FSDP_Tensor:$gradient,
                       FlatSymbolRefArrayAttr:$states,
                       FSDP_CountOr<"0">:$begin, FSDP_CountOr<"0">:$end,
                       Optional<FSDP_Scalar>:$scale,
                       Optional<FSDP_Scalar>:$skip,
                       Optional<FSDP_Tensor>:$staged,
                       Variadic<FSDP_Tensor>:$given,
                       FSDP_CountOr<"0">:$stream);
  let assemblyFormat = [{
    $rule $parameter `,` $gradient $states
    (`given` $given^ `:` type($given))? (`scale` $scale^ `:` type($scale))?
    (`skip` $skip^ `:` type($skip))? (`staged` $staged^ `:` type($staged))?
    attr-dict `:` type($gradient)
  }];
}

def FSDP_CmdCopyOp : FSDP_Cmd<"copy", [AttrSizedOperandSegments]> {
  let summary = "Copies pieces of memory in one pass, or fills them with zero";
  let description = [{
    A unit's members go into their bucket, and come out of it, by one copy. No
    piece is read where another is written.

    ```mlir
    fsdp.cmd.copy from %a, %b : tensor<4x3xf32>, tensor<4xf32> to %c : tensor<24xf32> {pieces = [#fsdp.piece<bytes = 24, blocks = 2, source_stride = 24, destination_stride = 48>, #fsdp.piece<source = 1, bytes = 8, blocks = 2, destination_offset = 24, source_stride = 8, destination_stride = 48>]}
    fsdp.cmd.copy to %c : tensor<24xf32> {pieces = [#fsdp.piece<source = -1, bytes = 96>]}
    ```
  }];
  let arguments = (ins Variadic<FSDP_Tensor>:$sources,
                       Variadic<FSDP_Tensor>:$destinations,
                       FSDP_PieceArrayAttr:$pieces,
                       FSDP_CountOr<"0">:$stream);
  let assemblyFormat = [{
    (`from` $sources^ `:` type($sources))? `to` $destinations `:`
    type($destinations) attr-dict
  }];
  let hasVerifier = 1;
}

def FSDP_CmdCollectiveOp : FSDP_Cmd<"collective", [FSDP_CollectiveOpInterface]> {
  let summary = "Exchanges data over axes of the mesh";
  let description = [{
    `count` elements of `dtype` are what a rank contributes to an all-gather or
    an all-reduce, what it receives from a reduce-scatter, and what it has for
    each rank in an all-to-all. A sum is divided by `divisor`. `op` says that an
    all-reduce takes the maximum, and `reduced` what it is of where that is no
    gradient. `mapped` and `ranks` are those of `fsdp.all_gather`.
  }];
  let arguments = (ins FSDP_CollectiveKindAttr:$kind, FSDP_Tensor:$source,
                       FSDP_Tensor:$destination, TypeAttr:$dtype,
                       FSDP_Count:$count, OptionalAttr<StrAttr>:$unit,
                       OptionalAttr<FSDP_ProgramRegionAttr>:$region,
                       FSDP_Divisor:$divisor, UnitAttr:$mapped,
                       DefaultValuedAttr<FSDP_ReduceOpAttr, "::fsdp::ReduceOp::Sum">:$op,
                       DefaultValuedAttr<FSDP_CollectiveRoleAttr,
                                         "::fsdp::CollectiveRole::Gradient">:$reduced,
                       FSDP_MeshAxes:$axes, FSDP_CountOr<"0">:$ranks,
                       FSDP_CountOr<"0">:$channel, FSDP_CountOr<"0">:$stream);
  let assemblyFormat = [{
    $kind $source `:` type($source) `to` $destination `:` type($destination)
    attr-dict
  }];
  let extraClassDeclaration = [{
    ::fsdp::CollectiveRole getRole();
    ::fsdp::ReduceOp getReduceOp() { return getOp(); }
    ::mlir::RankedTensorType getSourceType() { return getSource().getType(); }
    ::mlir::RankedTensorType getDestinationType() {
      return getDestination().getType();
    }
  }];
}

def FSDP_CmdRecordOp : FSDP_Cmd<"record"> {
  let summary = "Marks a point of this command's stream";
  let arguments = (ins FSDP_Count:$event, FSDP_CountOr<"0">:$stream);
  let assemblyFormat = "$event attr-dict";
}

def FSDP_CmdWaitOp : FSDP_Cmd<"wait"> {
  let summary = "Makes this command's stream wait for an event";
  let arguments = (ins FSDP_Count:$event, FSDP_CountOr<"0">:$stream);
  let assemblyFormat = "$event attr-dict";
}

#endif // FSDP_COMMANDS_TD

// Types of the fsdp dialect.

#ifndef FSDP_TYPES_TD
#define FSDP_TYPES_TD

include "fsdp/Dialect/FSDP/FSDPBase.td"
include "mlir/IR/AttrTypeBase.td"

def FSDP_FutureType : TypeDef<FSDP_Dialect, "Future"> {
  let mnemonic = "future";
  let summary = "A tensor that a collective or a copy in flight will have written";
  let description = [{
    Only `fsdp.wait` reads it, exactly once.
  }];
  let parameters = (ins "::mlir::RankedTensorType":$type);
  let builders = [TypeBuilderWithInferredContext<
      (ins "::mlir::RankedTensorType":$type),
      [{ return $_get(type.getContext(), type); }]>];
  let assemblyFormat = "`<` $type `>`";
  let genVerifyDecl = 1;
}

#endif // FSDP_TYPES_TD

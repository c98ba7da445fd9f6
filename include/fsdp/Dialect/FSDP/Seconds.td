// Times that were measured.

#ifndef FSDP_SECONDS_TD
#define FSDP_SECONDS_TD

include "mlir/IR/CommonAttrConstraints.td"

def FSDP_Seconds : TypedAttrBase<F64, "FloatAttr",
    And<[F64Attr.predicate,
         CPred<"::llvm::cast<::mlir::FloatAttr>($_self).getValue().isFiniteNonZero()">,
         CPred<"!::llvm::cast<::mlir::FloatAttr>($_self).getValue().isNegative()">]>,
    "seconds, finite and above 0"> {
  let returnType = "double";
  let convertFromStorage = "$_self.getValueAsDouble()";
  let constBuilderCall = "$_builder.getF64FloatAttr($0)";
}

#endif // FSDP_SECONDS_TD

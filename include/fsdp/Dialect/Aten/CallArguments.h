// What a call gives its schema.
//
// The one place that matches operands and attributes with a schema: the
// verifier, the analyses and the export to a plan all walk the result.

#ifndef FSDP_DIALECT_ATEN_CALLARGUMENTS_H
#define FSDP_DIALECT_ATEN_CALLARGUMENTS_H

#include "fsdp/Dialect/Aten/Schema.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/TypeRange.h"

namespace fsdp::aten {

/// What one argument of the schema is given.
struct CallArgument {
  enum class Kind {
    Default,   // nothing: the schema's default, or a device
    None,      // an absent tensor, or an explicit None
    Value,     // the tensor `operands[0]`
    ValueList, // the tensors `operands`; -1 is an absent member
    Scalar,    // the f64 or i64 operand `operands[0]`
    Attribute, // `attribute`
  };
  const Argument *argument = nullptr;
  Kind kind = Kind::Default;
  /// Indices among the op's operands.
  llvm::SmallVector<int64_t, 2> operands;
  mlir::Attribute attribute;
};

/// Matches a call with its schema, in the schema's order. Fails with an error
/// where an operand or attribute is missing, left over or of the wrong kind;
/// a null `emitError` keeps silent.
mlir::FailureOr<llvm::SmallVector<CallArgument>>
bindArguments(const Schema &schema, mlir::TypeRange operands,
              llvm::ArrayRef<int32_t> slots, mlir::DictionaryAttr args,
              llvm::function_ref<mlir::InFlightDiagnostic()> emitError);

/// The attribute that stands for an argument's default value: a unit for None;
/// null where there is no default.
mlir::Attribute getDefaultAttr(mlir::MLIRContext *context,
                               const Argument &argument);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_CALLARGUMENTS_H

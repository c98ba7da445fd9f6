// PyTorch's dtypes as element types.
//
// runtime/plan/DTypes.def is the table.

#ifndef FSDP_DIALECT_ATEN_ELEMENTTYPES_H
#define FSDP_DIALECT_ATEN_ELEMENTTYPES_H

#include "plan/DTypes.h"

#include "mlir/IR/Types.h"

namespace fsdp::aten {

mlir::Type getElementType(mlir::MLIRContext *context, plan::DType dtype);

/// The dtype of an element type; nothing where PyTorch has none.
std::optional<plan::DType> getDType(mlir::Type elementType);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_ELEMENTTYPES_H

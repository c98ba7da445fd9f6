// The casts that mixed precision asks for.
//
// Where a unit has a `param_dtype`, its parameters are computed with in it, and
// their gradients come in it. The casts are `_to_copy` calls that carry
// `fsdp.precision_cast`, apart from those that the model's author wrote: passes
// move them around gathers and reductions.

#ifndef FSDP_DIALECT_ATEN_PRECISIONCAST_H
#define FSDP_DIALECT_ATEN_PRECISIONCAST_H

#include "fsdp/Dialect/Aten/Aten.h"
#include "mlir/IR/Builders.h"

namespace fsdp::aten {

/// Whether `op` is a cast that mixed precision asks for.
bool isPrecisionCast(mlir::Operation *op);

/// `value` in another element type, row-major.
mlir::Value createPrecisionCast(mlir::OpBuilder &builder, mlir::Location loc,
                                Direction direction, mlir::Value value,
                                mlir::Type elementType);

/// What `value` is a precision cast of, or `value` itself.
mlir::Value lookThroughPrecisionCast(mlir::Value value);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_PRECISIONCAST_H

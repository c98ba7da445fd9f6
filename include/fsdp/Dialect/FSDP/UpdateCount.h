// How often an optimizer's rule has updated its parameters.

#ifndef FSDP_DIALECT_FSDP_UPDATECOUNT_H
#define FSDP_DIALECT_FSDP_UPDATECOUNT_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace fsdp {

/// The count with this step, as f64: of all steps less those that the state
/// `missed` counts, which give the parameters no gradient. Null: each gives
/// one.
mlir::Value createUpdateCount(mlir::OpBuilder &builder, mlir::Location loc,
                              mlir::FlatSymbolRefAttr missed);

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_UPDATECOUNT_H

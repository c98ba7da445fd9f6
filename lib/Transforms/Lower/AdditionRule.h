// The rule by which gradients are accumulated.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_ADDITIONRULE_H
#define FSDP_LIB_TRANSFORMS_LOWER_ADDITIONRULE_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// The rule @"fsdp.accumulate.f32" of an element type, made where it is not
/// there yet: what a state holds, plus a value.
mlir::func::FuncOp getAdditionRule(mlir::ModuleOp module,
                                   mlir::Type elementType);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_ADDITIONRULE_H

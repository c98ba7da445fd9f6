// The aten dialect.

#ifndef FSDP_DIALECT_ATEN_ATEN_H
#define FSDP_DIALECT_ATEN_ATEN_H

#include "fsdp/Dialect/Aten/CallArguments.h"
#include "fsdp/Dialect/Aten/Schema.h"
#include "fsdp/Dialect/FSDP/Interfaces.h"
#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/TensorEncoding.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "fsdp/Dialect/Aten/AtenDialect.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/Aten/AtenAttributes.h.inc"

namespace fsdp::aten {

/// The half of a training step that a call belongs to. Phases are those of the
/// IR.
enum class Direction { Forward, Backward };

/// PyTorch's default generator, as an effect: random ops keep their order.
struct RandomStream : mlir::SideEffects::Resource::Base<RandomStream> {
  llvm::StringRef getName() final { return "aten.random"; }
};

/// Strides of a row-major tensor, in elements, as PyTorch gives them: a
/// dimension of size 0 counts as 1.
llvm::SmallVector<int64_t> getRowMajorStrides(llvm::ArrayRef<int64_t> shape);

/// Strides of a static tensor type, in elements.
llvm::SmallVector<int64_t> getStrides(mlir::RankedTensorType type);

/// The tensor type with these strides: encoded where they are not row-major.
mlir::RankedTensorType getTensorType(llvm::ArrayRef<int64_t> shape,
                                     mlir::Type elementType,
                                     llvm::ArrayRef<int64_t> strides);

} // namespace fsdp::aten

#define GET_OP_CLASSES
#include "fsdp/Dialect/Aten/AtenOps.h.inc"

namespace fsdp::aten {

/// Whether an op is a call of backward.
inline bool isBackward(mlir::Operation *op) {
  auto call = llvm::dyn_cast<CallOp>(op);
  return call && call.getBackward();
}

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_ATEN_H

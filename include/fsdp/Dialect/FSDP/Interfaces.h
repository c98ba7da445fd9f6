// What passes ask of ops, whichever ops these are.

#ifndef FSDP_DIALECT_FSDP_INTERFACES_H
#define FSDP_DIALECT_FSDP_INTERFACES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

#include <optional>

#include "fsdp/Dialect/FSDP/FSDPEnums.h.inc"

namespace fsdp {

namespace plan {
struct CollectiveInfo;
} // namespace plan

/// Whether an op computes step scalars: one with the trait StepScalar, or
/// arithmetic.
bool isStepScalar(mlir::Operation *op);

template <typename Op>
class StepScalar : public mlir::OpTrait::TraitBase<Op, StepScalar> {};

/// The type of a tensor, or of the tensor that a future stands for.
mlir::RankedTensorType getMovedType(mlir::Value value);

namespace detail {
std::optional<uint64_t> getGivenStream(mlir::Operation *op);
const plan::CollectiveInfo &getCollectiveInfo(CollectiveKind kind);
/// The type of one rank's piece. Of an all-to-all it is that of the row which
/// each rank sends to each other one.
mlir::RankedTensorType getPieceType(CollectiveKind kind,
                                    mlir::RankedTensorType from,
                                    mlir::RankedTensorType to);
} // namespace detail

} // namespace fsdp

#include "fsdp/Dialect/FSDP/FSDPInterfaces.h.inc"

#endif // FSDP_DIALECT_FSDP_INTERFACES_H

// The divisions that make a mean of a sum of gradients.

#ifndef FSDP_LIB_TRANSFORMS_GRADIENTMEAN_H
#define FSDP_LIB_TRANSFORMS_GRADIENTMEAN_H

#include "mlir/IR/Builders.h"
#include "plan/GradientDivisors.h"

namespace fsdp {

/// The divisions before and after a sum over `ranks` of tensors of `type`, or
/// of that element type.
plan::GradientDivisors getGradientDivisors(mlir::Type type, int64_t ranks);

/// `gradient` divided by a number in its own dtype; itself where that is 1.
mlir::Value createDivision(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value gradient, double divisor);

/// What was divided by `divisor` to give `value`, which is `value` itself where
/// that is 1; null where nothing was.
mlir::Value getDividend(mlir::Value value, double divisor);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_GRADIENTMEAN_H

// The divisions that make a mean of a sum of gradients.

#ifndef FSDP_LIB_TRANSFORMS_GRADIENTMEAN_H
#define FSDP_LIB_TRANSFORMS_GRADIENTMEAN_H

#include "fsdp/Dialect/Aten/Aten.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "plan/GradientDivisors.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {

/// What each unit's sums of gradients are divided by: its own divisor, else the
/// number of ranks.
class GradientMeans {
public:
  explicit GradientMeans(mlir::ModuleOp module);

  /// The divisions before and after a sum of tensors of `type`, or of that
  /// element type. A null `unit` is one without a divisor of its own.
  plan::GradientDivisors get(mlir::StringAttr unit, mlir::Type type) const;

private:
  double ranks;
  llvm::StringMap<double> own; // by unit
};

/// `gradient` divided by a number in its own dtype; itself where that is 1.
mlir::Value createDivision(mlir::OpBuilder &builder, mlir::Location loc,
                           mlir::Value gradient, double divisor);

/// The division that gives `value`; null where it is of no division, as of one
/// by 1.
aten::CallOp getDivision(mlir::Value value);

/// What was divided by `divisor` to give `value`, which is `value` itself where
/// that is 1; null where nothing was.
mlir::Value getDividend(mlir::Value value, double divisor);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_GRADIENTMEAN_H

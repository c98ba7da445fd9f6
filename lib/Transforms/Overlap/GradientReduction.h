// The ops that make a gradient the mean over all ranks.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_GRADIENTREDUCTION_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_GRADIENTREDUCTION_H

#include "GradientMean.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include <optional>

namespace fsdp {

/// A sum over shards and one over replicas, of which one may be missing, and a
/// division, which may be missing too. Each is all that reads the one before.
/// Between the two sums what earlier micro-batches gave may be added.
struct GradientReduction {
  mlir::shard::ReduceScatterOp overShards;
  aten::CallOp addition;
  mlir::shard::AllReduceOp overReplicas;
  aten::CallOp division;

  /// The one that begins with `op`, if one does; the division is that of the
  /// unit's mean.
  static std::optional<GradientReduction>
  startingWith(mlir::Operation *op, const GradientMeans &means);

  mlir::Operation *getFirst();
  mlir::Operation *getSum();
  mlir::StringAttr getUnit();
  mlir::Value getInput() { return getFirst()->getOperand(0); }
  mlir::Value getResult();

  /// Makes the addition read another sum over shards; gives the addition's.
  mlir::Value addTo(mlir::Value sum);

  /// Erases the ops, but not the addition; what read their result reads
  /// `value`.
  void replaceWith(mlir::Value value);
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_GRADIENTREDUCTION_H

// How long one op takes.

#ifndef FSDP_ANALYSIS_OPCOST_H
#define FSDP_ANALYSIS_OPCOST_H

#include "cost/Cost.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Prices the ops of a module's programs on a cluster, in any phase.
class OpCost {
public:
  OpCost(mlir::ModuleOp module, cost::Cluster cluster);

  /// Seconds that an op keeps its own stream busy; 0 for what is no command.
  double getSeconds(mlir::Operation *op) const;

  /// The stream that an op is on: the one it has been given, else by its kind.
  static unsigned getStream(mlir::Operation *op);

  const cost::Cluster &getCluster() const { return cluster; }

private:
  /// Over one axis of the mesh, that of the shards where none is given; among
  /// all ranks along it, or so many neighbours.
  double getCollectiveSeconds(plan::CollectiveKind kind, mlir::Type whole,
                              std::optional<size_t> meshDim = std::nullopt,
                              uint64_t ranks = 0) const;
  double getMemorySeconds(double bytes) const;

  cost::Cluster cluster;
  llvm::SmallVector<int64_t> mesh;
  mutable mlir::SymbolTable symbols;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_OPCOST_H

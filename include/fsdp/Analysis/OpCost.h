// How long one op takes.

#ifndef FSDP_ANALYSIS_OPCOST_H
#define FSDP_ANALYSIS_OPCOST_H

#include "cost/Cost.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// Prices the ops of a module's programs on a cluster, in any phase.
class OpCost {
public:
  OpCost(mlir::ModuleOp module, cost::Cluster cluster);

  /// Seconds that an op keeps its own stream busy; 0 for an op that becomes no
  /// command, and for calls and copies that ranks of the first shard do not
  /// run.
  double getSeconds(mlir::Operation *op) const;
  /// Seconds of a collective over the shard axis whose whole buffer has so many
  /// bytes.
  double getSecondsOverShards(plan::CollectiveKind kind, double bytes) const;

  const cost::Cluster &getCluster() const { return cluster; }

private:
  double getCollectiveSeconds(CollectiveOpInterface op) const;
  double getMemorySeconds(double bytes) const;

  cost::Cluster cluster;
  Mesh mesh;
  mutable mlir::SymbolTable symbols;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_OPCOST_H

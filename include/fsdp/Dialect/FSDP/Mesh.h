// The mesh of ranks: its axes, and what each is for.

#ifndef FSDP_DIALECT_FSDP_MESH_H
#define FSDP_DIALECT_FSDP_MESH_H

#include "fsdp/Dialect/FSDP/FSDP.h"

namespace fsdp {

/// The mesh of a module. Ranks are numbered row-major, the last axis fastest. A
/// collective is over the axes of a role, among the ranks that differ in these
/// coordinates alone. Before fsdp-shard-state there is no mesh: it has no axes
/// and one rank.
class Mesh {
public:
  /// The mesh of the module that `op` is or is in.
  explicit Mesh(mlir::Operation *op);

  /// Whether the module has a mesh.
  explicit operator bool() const { return bool(grid); }
  mlir::shard::GridOp getGrid() const { return grid; }

  int64_t getNumAxes() const { return sizes.size(); }
  int64_t getSize(int64_t axis) const { return sizes[axis]; }
  /// The role of an axis, if it has been given one.
  std::optional<AxisRole> getRole(int64_t axis) const;

  /// The axes of a role, in the order of the grid. They are neighbours.
  llvm::SmallVector<int64_t> getAxes(AxisRole role) const;

  int64_t getNumRanks() const;
  /// The number of ranks of a collective over some axes, or over those of a
  /// role.
  int64_t getNumRanks(llvm::ArrayRef<int64_t> axes) const;
  int64_t getNumRanks(AxisRole role) const {
    return getNumRanks(getAxes(role));
  }
  /// The distance, in ranks, between neighbours along these axes.
  int64_t getStride(llvm::ArrayRef<int64_t> axes) const;
  int64_t getStride(AxisRole role) const { return getStride(getAxes(role)); }
  /// The number of parts that states are cut into, and of ranks that hold each.
  int64_t getNumShards() const { return getNumRanks(AxisRole::Shard); }
  int64_t getNumReplicas() const { return getNumRanks(AxisRole::Replicate); }

  /// The number of ranks that take part in a collective.
  int64_t getNumRanks(CollectiveOpInterface op) const;
  /// Whether a collective is over all axes of a role, and no others.
  bool isOver(CollectiveOpInterface op, AxisRole role) const;

private:
  mlir::shard::GridOp grid;
  llvm::ArrayRef<int64_t> sizes;
};

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_MESH_H

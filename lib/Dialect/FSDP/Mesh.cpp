// The mesh of ranks: its axes, and what each is for.

#include "fsdp/Dialect/FSDP/Mesh.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace fsdp;

Mesh::Mesh(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  if (auto grids = module.getOps<shard::GridOp>(); !grids.empty()) {
    grid = *grids.begin();
    sizes = grid.getShape();
  }
}

std::optional<AxisRole> Mesh::getRole(int64_t axis) const {
  auto axes = kAxesAttr.get(grid);
  if (!axes)
    return std::nullopt;
  return cast<AxisAttr>(axes[axis]).getRole();
}

SmallVector<int64_t> Mesh::getAxes(AxisRole role) const {
  SmallVector<int64_t> axes;
  for (int64_t axis = 0; axis < getNumAxes(); ++axis)
    if (getRole(axis) == role)
      axes.push_back(axis);
  return axes;
}

int64_t Mesh::getNumRanks() const {
  int64_t ranks = 1;
  for (int64_t size : sizes)
    ranks *= size;
  return ranks;
}

int64_t Mesh::getNumRanks(ArrayRef<int64_t> axes) const {
  int64_t ranks = 1;
  for (int64_t axis : axes)
    ranks *= axis < getNumAxes() ? getSize(axis) : 1;
  return ranks;
}

int64_t Mesh::getStride(ArrayRef<int64_t> axes) const {
  int64_t stride = 1;
  for (int64_t axis = axes.empty() ? getNumAxes() : axes.back() + 1;
       axis < getNumAxes(); ++axis)
    stride *= getSize(axis);
  return stride;
}

int64_t Mesh::getNumRanks(CollectiveOpInterface op) const {
  if (uint64_t neighbours = op.getRanks())
    return neighbours;
  return getNumRanks(op.getMeshAxes());
}

bool Mesh::isOver(CollectiveOpInterface op, AxisRole role) const {
  return *this && op.getMeshAxes() == getAxes(role);
}

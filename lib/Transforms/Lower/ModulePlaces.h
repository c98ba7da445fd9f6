// What verify-commands asks of a module's places, over all programs.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_MODULEPLACES_H
#define FSDP_LIB_TRANSFORMS_LOWER_MODULEPLACES_H

#include "fsdp/Analysis/CommandOrder.h"
#include "fsdp/Analysis/Places.h"
#include "llvm/ADT/DenseMap.h"

namespace fsdp {

/// Whether two places share a byte.
bool overlap(PlaceAttr a, PlaceAttr b);

class ModulePlaces {
public:
  explicit ModulePlaces(mlir::ModuleOp module) : module(module) {}

  /// Checks states and windows: C2, C12.
  mlir::LogicalResult check();
  /// The arenas end where the last place does: C13.
  mlir::LogicalResult checkSizes();

  /// The place lies in its arena and holds a tensor of this type.
  mlir::LogicalResult checkPlace(mlir::Operation *op, PlaceAttr place,
                                 mlir::RankedTensorType type) const;

  /// The range of arena 1 that shows a state; null where none does.
  PlaceAttr getWindow(mlir::StringAttr state) const {
    return windows.lookup(state);
  }

private:
  mlir::LogicalResult checkState(StateOp state);
  mlir::LogicalResult checkWindow(CmdCollectiveOp collective);
  void reach(PlaceAttr place);

  mlir::ModuleOp module;
  ByteTimeline states[kNumArenas], shown;
  llvm::DenseMap<mlir::StringAttr, PlaceAttr> windows;
  uint64_t ends[kNumArenas] = {};
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_MODULEPLACES_H

// What a pass changed.

#ifndef FSDP_LIB_TRANSFORMS_PASSCHANGES_H
#define FSDP_LIB_TRANSFORMS_PASSCHANGES_H

#include "Remarks.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {

/// A module's programs, counted. Taken in front of a pass and behind it.
class ProgramCounts {
public:
  static ProgramCounts of(mlir::ModuleOp module);

  /// Says of a pass what became of these counts. A figure that did not change
  /// is left out.
  void describeChange(const ProgramCounts &after, InFlightRemark &remark) const;

private:
  llvm::SmallVector<mlir::Operation *> ops; // in their order
  llvm::MapVector<llvm::StringRef, int64_t> kinds;
  int64_t stateBytes = 0;      // on a rank
  int64_t collectiveBytes = 0; // of whole tensors, all ranks' pieces
  int64_t peakBytes = 0;       // states included; 0: not known

  int64_t countMoved(const ProgramCounts &after) const;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_PASSCHANGES_H

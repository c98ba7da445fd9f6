// What the model itself says about gathers that start ahead.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_PREFETCHLISTS_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_PREFETCHLISTS_H

#include "Overlap/ProgramSchedule.h"

namespace fsdp {

/// The units whose gathers of one region start where `unit` begins in it.
struct PrefetchList {
  llvm::StringRef unit;
  ProgramRegion region;
  llvm::SmallVector<llvm::StringRef> targets;
  /// The slot of the unit's first op of the region, of modules inside it too.
  size_t begin = 0;
};

/// The lists of a program's units, in the order in which they begin. Units that
/// have nothing in the program are left out.
llvm::SmallVector<PrefetchList> getPrefetchLists(mlir::ModuleOp module,
                                                 ProgramSchedule &schedule);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_PREFETCHLISTS_H

// When each op of a program is predicted to run.

#ifndef FSDP_ANALYSIS_TIMELINE_H
#define FSDP_ANALYSIS_TIMELINE_H

#include "fsdp/Analysis/OpCost.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// On programs: the schedule that fsdp-schedule-overlap gave them.
inline constexpr llvm::StringLiteral kScheduleAttrName = "fsdp.schedule";

/// A program's ops in order of the block, each on its stream: an op runs when
/// those before it on its stream are through and, behind a wait, when what it
/// waits for is. A collective starts when its start is reached, and all ranks
/// are as fast as this one.
///
/// Programs of the scheduled and of the commands phase have streams; the
/// collectives of earlier phases run on the compute stream.
class Timeline {
public:
  struct Entry {
    mlir::Operation *op;
    unsigned stream;
    double start, end; // seconds since the program's start
  };

  static Timeline compute(mlir::func::FuncOp program, const OpCost &cost);

  /// Ops that take time, in order of the block.
  llvm::ArrayRef<Entry> getEntries() const { return entries; }

  /// From the start of the program until all its streams are through.
  double getStepSeconds() const { return stepSeconds; }
  /// Time in which the compute stream does nothing but wait for collectives,
  /// and copies from and to the host.
  double getExposedSeconds() const { return exposedSeconds; }
  /// The sum of all collectives, hidden or not.
  double getCommunicationSeconds() const { return communicationSeconds; }

  void dump(llvm::raw_ostream &os) const;
  LLVM_DUMP_METHOD void dump() const { dump(llvm::errs()); }

private:
  llvm::SmallVector<Entry> entries;
  double stepSeconds = 0, exposedSeconds = 0, communicationSeconds = 0;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_TIMELINE_H

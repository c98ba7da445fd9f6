// When each op of a program is predicted to run.

#ifndef FSDP_ANALYSIS_TIMELINE_H
#define FSDP_ANALYSIS_TIMELINE_H

#include "cost/StreamClocks.h"
#include "fsdp/Analysis/OpCost.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// A program's ops in order of the block, each on its stream, by the clocks
/// that predict plans too. A collective starts when its start is reached.
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

  /// As those of cost::StreamClocks; copies from and to the host are waited
  /// for as collectives are.
  double getStepSeconds() const { return clocks.stepSeconds(); }
  double getExposedSeconds() const { return clocks.exposedSeconds(); }
  double getCommunicationSeconds() const {
    return clocks.communicationSeconds();
  }

  void dump(llvm::raw_ostream &os) const;
  LLVM_DUMP_METHOD void dump() const { dump(llvm::errs()); }

private:
  llvm::SmallVector<Entry> entries;
  cost::StreamClocks clocks;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_TIMELINE_H

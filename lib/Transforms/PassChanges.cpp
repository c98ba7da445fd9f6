// What a pass changed: the remarks `changes`.

#include "PassChanges.h"

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "fsdp/Transforms/Passes.h"
#include "plan/FormatText.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fsdp;

/// 0 where a program's memory cannot be told yet, as that of ops which are not
/// localized.
static int64_t countPeakBytes(ModuleOp module, int64_t stateBytes) {
  ScopedDiagnosticHandler quiet(module.getContext(),
                                [](Diagnostic &) { return success(); });
  int64_t peak = 0;
  for (func::FuncOp program : getPrograms(module)) {
    if (auto planned = kLiveBytesAttr.get(program)) {
      peak = std::max(peak, planned.getInt());
      continue;
    }
    FailureOr<ProgramLiveness> liveness = ProgramLiveness::compute(program);
    if (failed(liveness))
      return 0;
    peak = std::max(peak, stateBytes + liveness->getPeakBytes());
  }
  return peak;
}

ProgramCounts ProgramCounts::of(ModuleOp module) {
  ProgramCounts counts;
  for (func::FuncOp program : getPrograms(module))
    program.walk([&](Operation *op) {
      counts.ops.push_back(op);
      ++counts.kinds[op->getName().getStringRef()];
      auto collective = dyn_cast<CollectiveOpInterface>(op);
      if (collective && isMemory(collective.getSourceType()) &&
          isMemory(collective.getDestinationType()))
        counts.collectiveBytes += getTensorBytes(collective.getWholeType());
    });
  counts.stateBytes = getStateBytes(module);
  counts.peakBytes = countPeakBytes(module, counts.stateBytes);
  return counts;
}

/// The least number of ops that, taken out and put elsewhere, make one order of
/// the other: all but a longest run of ops that kept their order. Of a pass
/// that makes or drops ops it is not asked; new ops may have the addresses of
/// dropped ones.
int64_t ProgramCounts::countMoved(const ProgramCounts &after) const {
  llvm::DenseMap<Operation *, size_t> placeBefore;
  for (auto [place, op] : llvm::enumerate(ops))
    placeBefore[op] = place;
  SmallVector<size_t> smallestEnds; // of increasing runs, by their length
  for (Operation *op : after.ops) {
    auto found = placeBefore.find(op);
    if (ops.size() != after.ops.size() || found == placeBefore.end())
      return 0;
    auto end = llvm::lower_bound(smallestEnds, found->second);
    if (end == smallestEnds.end())
      smallestEnds.push_back(found->second);
    else
      *end = found->second;
  }
  return ops.size() - smallestEnds.size();
}

void ProgramCounts::describeChange(const ProgramCounts &after,
                                   InFlightRemark &remark) const {
  llvm::MapVector<StringRef, int64_t> differences = after.kinds;
  for (auto [kind, count] : kinds)
    differences[kind] -= count;
  std::string added, removed;
  for (auto [kind, count] : differences) {
    std::string &list = count > 0 ? added : removed;
    if (count != 0)
      appendListed(list, kind.str() + " " + std::to_string(std::abs(count)));
  }
  auto change = [&](auto metricBefore, auto metricAfter, int64_t old,
                    int64_t now) {
    if (old != now)
      remark << metricBefore(old) << metricAfter(now);
  };
  change(metrics::OpsBefore, metrics::OpsAfter, ops.size(), after.ops.size());
  if (!added.empty())
    remark << metrics::Added(added);
  if (!removed.empty())
    remark << metrics::Removed(removed);
  if (int64_t moved = countMoved(after))
    remark << metrics::Moved(moved);
  change(metrics::StateBytesBefore, metrics::StateBytesAfter, stateBytes,
         after.stateBytes);
  change(metrics::CollectiveBytesBefore, metrics::CollectiveBytesAfter,
         collectiveBytes, after.collectiveBytes);
  change(metrics::PeakBytesBefore, metrics::PeakBytesAfter, peakBytes,
         after.peakBytes);
}

void ModulePass::runOnOperation() {
  KindOfErrors kind(kindOfErrors());
  ModuleOp module = getOperation();
  InFlightRemark remark = remarkChange(module.getLoc(), getArgument());
  if (!remark) // nobody has asked
    return runOnModule();
  ProgramCounts before = ProgramCounts::of(module);
  runOnModule();
  if (getPassState().irAndPassFailed.getInt()) // what it left may be no IR
    return;
  before.describeChange(ProgramCounts::of(module), remark);
}

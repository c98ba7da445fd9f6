// fsdp-remat-activations.

#include "Captured/Recomputation.h"
#include "Captured/RematSearch.h"
#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

namespace fsdp {
#define GEN_PASS_DEF_REMATACTIVATIONS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

StringRef nameOf(Remat remat) {
  return remat == Remat::None        ? "none"
         : remat == Remat::Selective ? "selective"
                                     : "full";
}

/// What is kept everywhere; nothing where it is chosen for each region.
std::optional<Remat> getRemat(RematPolicy policy) {
  switch (policy) {
  case RematPolicy::None:
    return Remat::None;
  case RematPolicy::Selective:
    return Remat::Selective;
  case RematPolicy::Full:
    return Remat::Full;
  case RematPolicy::Auto:
    return std::nullopt;
  }
  llvm_unreachable("covered switch");
}

class RematActivations
    : public fsdp::impl::RematActivationsBase<RematActivations> {
public:
  using RematActivationsBase::RematActivationsBase;

  void runOnModule() override;

private:
  using Choices = SmallVector<Remat>; // by region

  LogicalResult readOptions();
  LogicalResult run(func::FuncOp program);
  FailureOr<Choices> search(func::FuncOp program, const RematRegions &regions);
  std::optional<Remat> everywhere; // nothing: auto
  std::optional<int64_t> budget;   // bytes
  cost::Cluster hardware;
};

LogicalResult RematActivations::readOptions() {
  ModuleOp module = getOperation();
  everywhere = getRemat(remat);
  return fsdp::readOptions(module, [&] {
    budget = readMemoryBudget(memoryBudgetMib);
    hardware = readCluster(cluster, module);
    checkRemat(remat, memoryBudgetMib);
  });
}

FailureOr<RematActivations::Choices>
RematActivations::search(func::FuncOp program, const RematRegions &regions) {
  OpCost cost(getOperation(), hardware);
  RematSearch search(program, regions, cost, trial, *budget);
  FailureOr<RematSearch::Result> found = search.run();
  if (failed(found))
    return failure();
  for (auto [i, region] : llvm::enumerate(regions.getRegions())) {
    if (region.isCheckpoint)
      continue;
    Remat choice = found->choices[i];
    RematSearch::Effect effect =
        search.getEffect(i, choice == Remat::None ? Remat::Full : choice);
    bool isNone = choice == Remat::None;
    remarkDecision(!isNone, R::RematChoice, program.getLoc(),
                   program.getSymName())
        << (isNone ? "nothing is recomputed; all of it would" : nameOf(choice))
        << metrics::Recomputed(region.name)
        << metrics::FreedBytes(effect.freedBytes)
        << metrics::Us(effect.seconds);
  }
  remarkPassed(R::RematBudget, program.getLoc(), program.getSymName())
      << "memory-budget-mib=" + memoryBudgetMib.getValue()
      << metrics::PeakBytes(found->after.peakBytes)
      << metrics::StepUs(found->after.stepSeconds)
      << metrics::KeptPeakBytes(found->before.peakBytes)
      << metrics::KeptStepUs(found->before.stepSeconds)
      << metrics::Measured(found->measured);
  return found->choices;
}

LogicalResult RematActivations::run(func::FuncOp program) {
  RematRegions regions = RematRegions::compute(program, getOperation());
  Choices choices;
  for (const RematRegions::Region &region : regions.getRegions())
    choices.push_back(region.isCheckpoint ? Remat::Full
                                          : everywhere.value_or(Remat::None));
  if (!everywhere && llvm::any_of(program.getOps(), [](Operation &op) {
        return isBackward(&op);
      })) {
    FailureOr<Choices> found = search(program, regions);
    if (failed(found))
      return failure();
    choices = *found;
  }
  Recomputation recomputation(regions, choices);
  recomputation.run(program);
  for (auto [region, repeated] :
       llvm::zip(regions.getRegions(), recomputation.getRepeated()))
    if (repeated)
      remarkPassed(R::RepeatedOps, program.getLoc(), program.getSymName())
          << "backward repeats ops of the region"
          << metrics::Recomputed(region.name) << metrics::Repeated(repeated)
          << metrics::Ops(region.ops.size());
  return success();
}

void RematActivations::runOnModule() {
  if (failed(readOptions()))
    return signalPassFailure();
  for (func::FuncOp program : getPrograms(getOperation()))
    if (failed(run(program)))
      return signalPassFailure();
}

} // namespace

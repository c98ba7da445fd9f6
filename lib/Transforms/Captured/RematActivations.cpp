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
  if (failed(readMemoryBudget(module, memoryBudgetMib, budget)) ||
      failed(readCluster(module, cluster, hardware)))
    return failure();
  if (!everywhere && !budget)
    return ofKind(
        E::OptionsDisagree,
        module.emitError("remat=auto needs memory-budget-mib, the MiB that a "
                         "rank may use; or say remat=none, selective or "
                         "full"));
  return success();
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
    std::string figures =
        llvm::formatv("frees {0} bytes until backward for {1:F1} us",
                      effect.freedBytes, effect.seconds * 1e6);
    if (choice == Remat::None)
      remarkMissed(R::RematChoice, program.getLoc(), program.getSymName())
          << "\"" + region.name + "\": none; full " + figures;
    else
      remarkPassed(R::RematChoice, program.getLoc(), program.getSymName())
          << "\"" + region.name + "\": " + nameOf(choice).str() + " " + figures;
  }
  auto describe = [](const RematSearch::Measure &measure) {
    return llvm::formatv("peak {0} bytes, step {1:F1} us", measure.peakBytes,
                         measure.stepSeconds * 1e6)
        .str();
  };
  remarkPassed(R::RematBudget, program.getLoc(), program.getSymName())
      << "memory-budget-mib=" + memoryBudgetMib.getValue() + ": " +
             describe(found->after) +
             "; recomputing nothing: " + describe(found->before) + "; " +
             std::to_string(found->measured) + " choices measured";
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
          << "\"" + region.name + "\": backward repeats " +
                 std::to_string(repeated) + " of " +
                 std::to_string(region.ops.size()) + " ops";
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

// What to recompute so that a budget of memory holds.

#include "Captured/RematSearch.h"

#include "Captured/Recomputation.h"

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Timeline.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/Bytecode/BytecodeReader.h"
#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>

using namespace mlir;
using namespace fsdp;

/// How many steps are tried to be given back.
static constexpr unsigned kReturns = 8;

RematSearch::RematSearch(func::FuncOp program, const RematRegions &regions,
                         const OpCost &cost, StringRef passes, int64_t budget)
    : program(program), regions(regions), cost(cost), passes(passes),
      budget(budget), aliases(program.getBody().front()),
      context(program.getContext()->getDialectRegistry(),
              MLIRContext::Threading::DISABLED) {
  for (unsigned region = 0; region < regions.getRegions().size(); ++region)
    if (!regions.getRegions()[region].isCheckpoint)
      addSteps(region);
  // Of equal ones, what was computed first is held longest.
  llvm::stable_sort(steps, [](const Step &a, const Step &b) {
    return double(a.effect.freedBytes) * b.effect.seconds >
           double(b.effect.freedBytes) * a.effect.seconds;
  });
}

/// A region goes from none over selective to full; where full frees more in a
/// second than selective, at once.
void RematSearch::addSteps(unsigned region) {
  Effect selective = getEffect(region, Remat::Selective);
  Effect full = getEffect(region, Remat::Full);
  Effect rest{full.seconds - selective.seconds,
              full.freedBytes - selective.freedBytes};
  bool inTwo = selective.freedBytes > 0 &&
               double(selective.freedBytes) * rest.seconds >=
                   double(rest.freedBytes) * selective.seconds;
  if (inTwo)
    steps.push_back({region, Remat::Selective, selective});
  if (!inTwo && full.freedBytes > 0)
    steps.push_back({region, Remat::Full, full});
  if (inTwo && rest.freedBytes > 0)
    steps.push_back({region, Remat::Full, rest});
}

/// What is in memory from forward to backward: what backward reads of the
/// region, and what is recomputed from.
int64_t RematSearch::getHeldBytes(unsigned region, Remat remat,
                                  ArrayRef<aten::CallOp> repeated) const {
  llvm::DenseSet<Value> roots;
  int64_t bytes = 0;
  auto hold = [&](Value value) {
    Value root = aliases.getRoot(value);
    if (root.getDefiningOp<aten::CallOp>() && roots.insert(root).second)
      bytes += getSpanBytes(cast<RankedTensorType>(root.getType()));
  };
  auto isMissing = [&](Value value) {
    return regions.getRegion(value) == region && !regions.isKept(value, remat);
  };
  for (aten::CallOp call : regions.getRegions()[region].ops)
    for (Value result : call->getResults())
      if (isa<RankedTensorType>(result.getType()) && !isMissing(result) &&
          llvm::any_of(result.getUsers(), isBackward))
        hold(result);
  for (aten::CallOp call : repeated)
    for (Value operand : call->getOperands())
      if (isa<RankedTensorType>(operand.getType()) && !isMissing(operand))
        hold(operand);
  return bytes;
}

RematSearch::Effect RematSearch::getEffect(unsigned region, Remat remat) const {
  SmallVector<aten::CallOp> repeated = regions.getRepeated(region, remat);
  Effect effect;
  for (aten::CallOp call : repeated)
    effect.seconds += cost.getSeconds(call);
  effect.freedBytes = getHeldBytes(region, Remat::None, {}) -
                      getHeldBytes(region, remat, repeated);
  return effect;
}

RematSearch::Choices RematSearch::choose(ArrayRef<Step> taken) const {
  Choices choices;
  for (const RematRegions::Region &region : regions.getRegions())
    choices.push_back(region.isCheckpoint ? Remat::Full : Remat::None);
  for (const Step &step : taken)
    choices[step.region] = std::max(choices[step.region], step.remat);
  return choices;
}

FailureOr<RematSearch::Measure> RematSearch::measure(const Choices &choices) {
  ++measured;
  OwningOpRef<ModuleOp> trial = copy->clone();
  auto step = trial->lookupSymbol<func::FuncOp>(program.getSymName());
  Recomputation(RematRegions::compute(step, *trial), choices).run(step);

  std::string why;
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (why.empty() && diagnostic.getSeverity() == DiagnosticSeverity::Error)
      why = diagnostic.str();
    return success();
  });
  PassManager pm(&context);
  llvm::raw_string_ostream os(why);
  if (failed(parsePassPipeline(passes, pm, os)))
    return program.emitError("remat=auto cannot read its trial: ") << why;
  // A schedule that does not fit is in its tightest order when it fails.
  if (failed(pm.run(*trial)) && !kScheduleAttr.isOn(step))
    return program.emitError(why);

  Measure measure;
  for (func::FuncOp other : getPrograms(*trial)) {
    FailureOr<ProgramLiveness> liveness = ProgramLiveness::compute(other);
    if (failed(liveness))
      return program.emitError(why);
    measure.peakBytes = std::max(measure.peakBytes, liveness->getPeakBytes());
  }
  measure.peakBytes += getStateBytes(*trial);
  OpCost priced(*trial, cost.getCluster());
  measure.stepSeconds = Timeline::compute(step, priced).getStepSeconds();
  return measure;
}

/// Gives back steps that the budget does not need, the slowest first.
LogicalResult RematSearch::giveBack(SmallVector<Step> &taken, Measure &best) {
  SmallVector<unsigned> slowest = llvm::to_vector(llvm::seq<unsigned>(
      0, taken.empty() ? 0 : taken.size() - 1)); // the last one is needed
  llvm::stable_sort(slowest, [&](unsigned a, unsigned b) {
    return taken[a].effect.seconds > taken[b].effect.seconds;
  });
  slowest.truncate(std::min<size_t>(slowest.size(), kReturns));
  SmallVector<bool> needed(taken.size(), true);
  auto getTaken = [&] {
    SmallVector<Step> left;
    for (auto [step, isNeeded] : llvm::zip(taken, needed))
      if (isNeeded)
        left.push_back(step);
    return left;
  };
  for (unsigned index : slowest) {
    needed[index] = false;
    FailureOr<Measure> without = measure(choose(getTaken()));
    if (failed(without))
      return failure();
    if (fits(*without) && without->stepSeconds <= best.stepSeconds)
      best = *without;
    else
      needed[index] = true;
  }
  taken = getTaken();
  return success();
}

FailureOr<RematSearch::Result> RematSearch::run() {
  std::string bytecode;
  llvm::raw_string_ostream os(bytecode);
  if (failed(writeBytecodeToFile(program->getParentOp(), os)))
    return program.emitError("cannot be copied to measure it");
  ParserConfig config(&context);
  copy = parseSourceString<ModuleOp>(bytecode, config);
  if (!copy)
    return program.emitError("cannot be copied to measure it");

  Result result;
  FailureOr<Measure> none = measure(choose({}));
  if (failed(none))
    return failure();
  result.before = result.after = *none;
  SmallVector<Step> taken;
  if (!fits(*none)) {
    // Where all of it is too much at once in one backward, the cheap part.
    SmallVector<Step> cheap = llvm::to_vector(llvm::make_filter_range(
        steps, [](const Step &s) { return s.remat == Remat::Selective; }));
    int64_t least = none->peakBytes;
    for (ArrayRef<Step> list : {ArrayRef<Step>(steps), ArrayRef<Step>(cheap)}) {
      FailureOr<Measure> all = measure(choose(list));
      if (failed(all))
        return failure();
      least = std::min(least, all->peakBytes);
      if (!fits(*all))
        continue;
      // The shortest beginning that fits.
      size_t tooFew = 0, enough = list.size();
      result.after = *all;
      while (enough - tooFew > 1) {
        size_t middle = (tooFew + enough) / 2;
        FailureOr<Measure> some = measure(choose(list.take_front(middle)));
        if (failed(some))
          return failure();
        if (fits(*some)) {
          enough = middle;
          result.after = *some;
        } else {
          tooFew = middle;
        }
      }
      taken = llvm::to_vector(list.take_front(enough));
      break;
    }
    if (taken.empty())
      return ofKind(E::MemoryBudget, program.emitError("program \""))
             << program.getSymName() << "\" does not fit a memory budget of "
             << budget
             << " bytes whatever is recomputed; the smallest that it fits is "
             << llvm::formatv("{0:F2}", std::ceil(least / 10485.76) / 100).str()
             << " MiB (" << least << " bytes)";
    if (failed(giveBack(taken, result.after)))
      return failure();
  }
  result.choices = choose(taken);
  result.measured = measured;
  return result;
}

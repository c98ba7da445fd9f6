// fsdp-schedule-overlap.

#include "Overlap/SchedulePolicies.h"
#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Timeline.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/FormatVariadic.h"

#include <cmath>

namespace fsdp {
#define GEN_PASS_DEF_SCHEDULEOVERLAP
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// What a block's order costs.
struct Outcome {
  double stepSeconds = 0, exposedSeconds = 0, communicationSeconds = 0;
  int64_t peakBytes = 0; // states included
};

class ScheduleOverlap
    : public fsdp::impl::ScheduleOverlapBase<ScheduleOverlap> {
public:
  using ScheduleOverlapBase::ScheduleOverlapBase;

private:
  void runOnModule() override;
  LogicalResult readOptions();
  LogicalResult checkStarts(func::FuncOp program);
  LogicalResult run(func::FuncOp program, const OpCost &cost);
  LogicalResult choose(func::FuncOp program, ProgramSchedule &schedule,
                       const OpCost &cost);
  bool tighten(func::FuncOp program, ProgramSchedule &schedule,
               bool updatesLast);
  SmallVector<int64_t> getMemory(func::FuncOp program);
  Outcome judge(func::FuncOp program, const OpCost &cost);
  void explain(func::FuncOp program, ProgramSchedule &schedule,
               const Outcome &before, const Outcome &after);
  void explainLists(func::FuncOp program, ProgramSchedule &schedule);

  cost::Cluster hardware;
  std::optional<size_t> forward, backward; // prefetch depths
  std::optional<int64_t> budget;           // bytes
  int64_t stateBytes = 0;
  SmallVector<PrefetchList> lists; // of the program
};

LogicalResult ScheduleOverlap::readOptions() {
  return fsdp::readOptions(getOperation(), [&] {
    forward = readPrefetchDepth("prefetch-forward", prefetchForward);
    backward = readPrefetchDepth("prefetch-backward", prefetchBackward);
    budget = readMemoryBudget(memoryBudgetMib);
    hardware = readCluster(cluster, getOperation());
  });
}

LogicalResult ScheduleOverlap::checkStarts(func::FuncOp program) {
  if (!program.getBody().hasOneBlock())
    return program.emitOpError("is not one block of ops; control flow cannot "
                               "be scheduled");
  WalkResult result = program.walk([](Operation *op) {
    if (isa<StartableOpInterface>(op)) {
      op->emitOpError("is not asynchronous; run --fsdp-convert-to-async first");
      return WalkResult::interrupt();
    }
    if (isa<StartOpInterface>(op) &&
        (!op->hasOneUse() || !isa<WaitOp>(*op->user_begin()) ||
         (*op->user_begin())->getBlock() != op->getBlock())) {
      op->emitOpError("has not one wait in its block; see "
                      "--fsdp-verify-async");
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return failure(result.wasInterrupted());
}

/// Bytes in use at each op on the device, states included.
SmallVector<int64_t> ScheduleOverlap::getMemory(func::FuncOp program) {
  FailureOr<ProgramLiveness> liveness = ProgramLiveness::compute(program);
  if (failed(liveness))
    return {};
  size_t count = program.getBody().front().getOperations().size();
  SmallVector<int64_t> memory(count + 1, 0);
  for (const ProgramLiveness::Storage &storage : liveness->getStorages()) {
    if (storage.state || storage.arena != kDeviceArena)
      continue;
    int64_t bytes = llvm::alignTo(storage.block.bytes, kAlignment);
    memory[std::max<int64_t>(storage.block.first, 0)] += bytes;
    memory[std::min<int64_t>(storage.block.last + 1, count)] -= bytes;
  }
  int64_t now = stateBytes;
  for (int64_t &bytes : memory)
    bytes = now += bytes;
  memory.pop_back();
  return memory;
}

Outcome ScheduleOverlap::judge(func::FuncOp program, const OpCost &cost) {
  Timeline timeline = Timeline::compute(program, cost);
  Outcome outcome;
  outcome.stepSeconds = timeline.getStepSeconds();
  outcome.exposedSeconds = timeline.getExposedSeconds();
  outcome.communicationSeconds = timeline.getCommunicationSeconds();
  for (int64_t bytes : getMemory(program))
    outcome.peakBytes = std::max(outcome.peakBytes, bytes);
  return outcome;
}

/// Shortens flights until the program fits the budget. Where it does not, the
/// gather that is needed last starts later, or a reduction is waited for
/// sooner. Returns false where nothing is left to shorten.
bool ScheduleOverlap::tighten(func::FuncOp program, ProgramSchedule &schedule,
                              bool updatesLast) {
  // What a flight frees is estimated within a round and measured after it.
  constexpr int kRounds = 8;
  for (int round = 0; round < kRounds; ++round) {
    SmallVector<size_t> slots = schedule.apply(updatesLast);
    SmallVector<int64_t> memory = getMemory(program);
    // The most at each slot: a slot has an op of the spine and what moves.
    SmallVector<int64_t> most(schedule.getLastSlot() + 1, 0);
    for (auto [slot, bytes] : llvm::zip(slots, memory))
      most[slot] = std::max(most[slot], bytes);
    bool shortened = false, fits = true;
    for (size_t slot = 0; slot < most.size(); ++slot) {
      while (most[slot] > *budget) {
        fits = false;
        Flight *longest = nullptr;
        size_t distance = 0;
        for (auto flights : {schedule.getGathers(), schedule.getReductions()})
          for (Flight &flight : flights) {
            size_t end = flight.isGather ? flight.need : flight.endSlot;
            if (flight.bytes && flight.startSlot <= slot && slot < end &&
                end - slot > distance &&
                (flight.isGather || flight.startSlot < slot)) {
              longest = &flight;
              distance = end - slot;
            }
          }
        if (!longest)
          break;
        shortened = true;
        if (longest->isGather) {
          for (size_t i = longest->startSlot; i <= slot; ++i)
            most[i] -= longest->bytes;
          longest->startSlot = slot + 1;
        } else {
          for (size_t i = slot; i < longest->endSlot; ++i)
            most[i] -= longest->bytes;
          longest->endSlot = slot;
          longest->waitSlot = std::min(longest->waitSlot, slot);
        }
      }
    }
    if (fits || !shortened)
      return fits;
    // What a list had start ahead may now start behind others.
    if (!lists.empty())
      llvm::stable_sort(schedule.getGathers(),
                        [](const Flight &a, const Flight &b) {
                          return a.startSlot < b.startSlot;
                        });
  }
  return llvm::all_of(getMemory(program),
                      [&](int64_t bytes) { return bytes <= *budget; });
}

/// Tries margins and keeps the one that is predicted to be best: least time
/// exposed, and of those that are equal, or do not fit, the one with the lowest
/// peak.
LogicalResult ScheduleOverlap::choose(func::FuncOp program,
                                      ProgramSchedule &schedule,
                                      const OpCost &cost) {
  SmallVector<Choice> choices;
  if (this->schedule == SchedulePolicy::Fsdp2) {
    choices.push_back({true, forward, backward, 1, false, lists});
  } else {
    for (double margin : {1.5, 1.0, 2.0, 3.0})
      choices.push_back({false, forward, backward, margin, true, lists});
    // Held gradients are memory: where it is short, there are ways with less.
    if (budget) {
      for (double margin : {1.5, 1.0})
        choices.push_back({false, forward, backward, margin, false, lists});
      choices.push_back({false, 0, 0, 0, false});
    }
  }
  auto apply = [&](const Choice &choice) {
    decide(schedule, choice, hardware.skewSeconds);
    schedule.apply(choice.fsdp2);
    return !budget || choice.fsdp2 || tighten(program, schedule, choice.fsdp2);
  };
  size_t best = 0;
  if (choices.size() > 1) {
    std::optional<Outcome> least;
    bool leastFits = false;
    for (auto [i, choice] : llvm::enumerate(choices)) {
      bool fits = apply(choice);
      Outcome outcome = judge(program, cost);
      // A thousandth of a step is below what the model can tell apart.
      auto rank = [](bool fits, const Outcome &outcome) {
        auto exposed =
            int64_t(outcome.exposedSeconds / outcome.stepSeconds * 1000);
        return std::make_tuple(!fits, fits ? exposed : 0, outcome.peakBytes);
      };
      if (!least || rank(fits, outcome) < rank(leastFits, *least)) {
        least = outcome;
        leastFits = fits;
        best = i;
      }
    }
  }
  if (apply(choices[best]))
    return success();
  int64_t least = judge(program, cost).peakBytes;
  return ofKind(E::MemoryBudget, program.emitError("program \""))
         << program.getSymName()
         << "\" does not fit memory-budget-mib=" << memoryBudgetMib
         << ": it needs "
         << llvm::formatv("{0:F2}", std::ceil(least / 10485.76) / 100).str()
         << " MiB (" << least
         << " bytes) with no collective in flight longer than it must be; give "
            "that, more ranks, or remat=auto or offload=all, which need less";
}

/// What became of the lists: a gather that does not start where its list says
/// has started before, gives way to the budget, or is not there at all.
void ScheduleOverlap::explainLists(func::FuncOp program,
                                   ProgramSchedule &schedule) {
  for (const PrefetchList &list : lists)
    for (StringRef target : list.targets) {
      bool starts = llvm::any_of(schedule.getGathers(), [&](const Flight &f) {
        return f.unit == target && f.region == list.region &&
               f.startSlot == list.begin;
      });
      remarkDecision(starts, R::ListedGather, program.getLoc(),
                     program.getSymName())
          << (starts ? "starts where the unit begins"
                     : "does not start where the unit begins")
          << metrics::Unit(list.unit)
          << metrics::Region(stringifyProgramRegion(list.region))
          << metrics::Gathered(target);
    }
}

/// "reduce-scatter", or what else a flight is.
static std::string getCollectiveName(const Flight &flight) {
  Operation *start = flight.start;
  auto collective = dyn_cast<CollectiveOpInterface>(start);
  if (!collective)
    return "copy to the host";
  std::string name = stringifyCollectiveKind(collective.getKind()).str();
  if (flight.replicas.start)
    name += " and all_reduce";
  if (!flight.behind.empty())
    name += " and its copy to the host";
  std::replace(name.begin(), name.end(), '_', '-');
  return name;
}

void ScheduleOverlap::explain(func::FuncOp program, ProgramSchedule &schedule,
                              const Outcome &before, const Outcome &after) {
  StringRef name = program.getSymName();
  ArrayRef<double> seconds = schedule.getSlotSeconds();
  for (const Flight &flight : schedule.getGathers())
    remarkPassed(R::ScheduledGather, flight.start->getLoc(), name)
        << "starts in front of its first reader"
        << metrics::Unit(flight.unit.str())
        << metrics::Region(stringifyProgramRegion(*flight.region).str())
        << metrics::Us(flight.seconds)
        << metrics::AheadUs(seconds[flight.need] - seconds[flight.startSlot])
        << metrics::AheadOps(flight.need - flight.startSlot);
  for (const Flight &flight : schedule.getReductions())
    remarkPassed(R::ScheduledReduction, flight.start->getLoc(), name)
        << getCollectiveName(flight) + " is waited for behind its start"
        << metrics::Unit(flight.unit.str())
        << metrics::Us(flight.seconds + flight.replicas.seconds)
        << metrics::BehindUs(seconds[flight.endSlot] -
                             seconds[flight.startSlot])
        << metrics::BehindOps(flight.endSlot - flight.startSlot);
  remarkPassed(R::Schedule, program.getLoc(), name)
      << "schedule=" + this->schedule.getValue().getName().str()
      << metrics::StepUs(after.stepSeconds)
      << metrics::CommunicationUs(after.communicationSeconds)
      << metrics::ExposedUs(after.exposedSeconds)
      << metrics::PeakBytes(after.peakBytes)
      << metrics::NaiveStepUs(before.stepSeconds)
      << metrics::NaiveExposedUs(before.exposedSeconds)
      << metrics::NaivePeakBytes(before.peakBytes);
}

LogicalResult ScheduleOverlap::run(func::FuncOp program, const OpCost &cost) {
  if (failed(checkStarts(program)))
    return failure();
  std::optional<ProgramSchedule> taken =
      ProgramSchedule::compute(program, cost);
  kScheduleAttr.set(program, taken ? schedule.getValue().getName() : "naive");
  if (!taken) {
    remarkMissed(R::Schedule, program.getLoc(), program.getSymName())
        << "keeps its order: a collective depends on the sum of another, or a "
           "state is read behind its update";
    return success();
  }
  if (schedule == SchedulePolicy::Naive ||
      (taken->getGathers().empty() && taken->getReductions().empty()))
    return success();
  lists = getPrefetchLists(getOperation(), *taken);
  Outcome before = judge(program, cost);
  if (failed(choose(program, *taken, cost)))
    return failure();
  explain(program, *taken, before, judge(program, cost));
  explainLists(program, *taken);
  return success();
}

void ScheduleOverlap::runOnModule() {
  if (failed(readOptions()))
    return signalPassFailure();
  ModuleOp module = getOperation();
  stateBytes = getStateBytes(module);
  OpCost cost(module, hardware);
  for (func::FuncOp program : getPrograms(module))
    if (failed(run(program, cost)))
      return signalPassFailure();
}

} // namespace

// How early gathers start and how late reductions are waited for.

#include "SchedulePolicies.h"

using namespace mlir;
using namespace fsdp;

/// Gathers of a unit, which may have several in a row, start right behind the
/// first wait of the unit `depth` before it; those of the first units where
/// their region starts.
static void startByDepth(ProgramSchedule &schedule, StringRef region,
                         size_t depth) {
  SmallVector<size_t> needs; // of each unit's first gather
  StringRef last;
  size_t begin = region == "backward" ? schedule.getBackwardSlot() : 0;
  for (Flight &flight : schedule.getGathers()) {
    if (flight.region != region)
      continue;
    if (needs.empty() || flight.unit != last)
      needs.push_back(flight.need);
    last = flight.unit;
    flight.startSlot = depth == 0 ? flight.need
                       : needs.size() <= depth
                           ? std::min(begin, flight.need)
                           : needs[needs.size() - 1 - depth];
  }
}

/// The last slot that begins no later than `seconds` into the spine.
static size_t getSlotAt(const ProgramSchedule &schedule, double seconds) {
  ArrayRef<double> slots = schedule.getSlotSeconds();
  auto behind = llvm::upper_bound(slots, seconds);
  return behind == slots.begin() ? 0 : behind - slots.begin() - 1;
}

/// Each gather starts as late as it can without being waited for: a channel
/// carries one after the other, so the last one's start bounds those in front.
static void startByCost(ProgramSchedule &schedule, double margin, double skew) {
  double channelFree = schedule.getSlotSeconds().back();
  for (Flight &flight : llvm::reverse(schedule.getGathers())) {
    double due = schedule.getSlotSeconds()[flight.need] - skew;
    channelFree = std::min(due, channelFree) - margin * flight.seconds;
    flight.startSlot = std::min(getSlotAt(schedule, channelFree), flight.need);
  }
}

/// Each reduction starts when its inputs are there and is waited for when it
/// should be through, so that its memory is free again soon. Returns the
/// seconds from the end of compute until the last one is through.
static double reduceByCost(ProgramSchedule &schedule, double margin,
                           double skew) {
  double channelFree = 0, replicasFree = 0;
  auto getEnd = [&](double seconds) {
    return std::min(getSlotAt(schedule, seconds + skew) + 1,
                    schedule.getLastSlot());
  };
  for (Flight &flight : schedule.getReductions()) {
    flight.startSlot = flight.ready;
    channelFree =
        std::max(channelFree, schedule.getSlotSeconds()[flight.ready]) +
        margin * flight.seconds;
    flight.endSlot = flight.waitSlot = getEnd(channelFree);
    if (flight.replicas.start) {
      replicasFree = std::max(replicasFree, channelFree + skew) +
                     margin * flight.replicas.seconds;
      flight.endSlot = getEnd(replicasFree);
    }
    if (margin == 0)
      flight.endSlot = flight.waitSlot = flight.ready;
  }
  return std::max(channelFree, replicasFree) + skew -
         schedule.getSlotSeconds().back();
}

/// One reduction in flight: it is waited for when the next one starts.
static void reduceOneByOne(ProgramSchedule &schedule) {
  MutableArrayRef<Flight> reductions = schedule.getReductions();
  for (auto [i, flight] : llvm::enumerate(reductions)) {
    flight.startSlot = flight.ready;
    flight.waitSlot = i + 1 < reductions.size() ? reductions[i + 1].ready
                                                : schedule.getLastSlot();
    // FSDP2 keeps one sum over replicas as well.
    flight.endSlot = i + 2 < reductions.size() ? reductions[i + 2].ready
                                               : schedule.getLastSlot();
    if (!flight.replicas.start)
      flight.endSlot = flight.waitSlot;
  }
}

void fsdp::decide(ProgramSchedule &schedule, const Choice &choice,
                  double skew) {
  if (choice.fsdp2) {
    startByDepth(schedule, "forward", choice.forward.value_or(1));
    startByDepth(schedule, "backward", choice.backward.value_or(1));
    reduceOneByOne(schedule);
    schedule.holdUpdates(0);
    return;
  }
  startByCost(schedule, choice.margin, skew);
  if (choice.forward)
    startByDepth(schedule, "forward", *choice.forward);
  if (choice.backward)
    startByDepth(schedule, "backward", *choice.backward);
  double left = reduceByCost(schedule, choice.margin, skew);
  schedule.holdUpdates(choice.holdsUpdates ? left : 0);
}

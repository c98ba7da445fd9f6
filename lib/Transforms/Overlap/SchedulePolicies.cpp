// How early gathers start and how late reductions are waited for.

#include "Overlap/SchedulePolicies.h"

using namespace mlir;
using namespace fsdp;

/// Gathers of a unit, which may have several in a row, start right behind the
/// first wait of a unit up to `depth` before it; those of the first units where
/// their region starts. A unit with a list starts no others, but in forward the
/// next one, as FSDP2, which runs ahead, does.
static void startByDepth(ProgramSchedule &schedule, ProgramRegion region,
                         size_t depth, ArrayRef<PrefetchList> lists) {
  struct Use {
    StringRef unit;
    size_t need; // of the first gather
  };
  // Where a region starts is the root's.
  SmallVector<Use> uses{
      {"", region == ProgramRegion::Backward ? schedule.getBackwardSlot() : 0}};
  auto hasList = [&](StringRef unit) {
    return llvm::any_of(lists, [&](const PrefetchList &list) {
      return list.unit == unit && list.region == region;
    });
  };
  for (Flight &flight : schedule.getGathers()) {
    if (flight.region != region)
      continue;
    if (uses.size() == 1 || flight.unit != uses.back().unit)
      uses.push_back({flight.unit, flight.need});
    flight.startSlot = flight.need;
    for (size_t ahead = 1; ahead <= std::min(depth, uses.size() - 1); ++ahead) {
      const Use &use = uses[uses.size() - 1 - ahead];
      bool runsAhead = region == ProgramRegion::Forward && ahead == 1;
      if (runsAhead || use.unit == flight.unit || !hasList(use.unit))
        flight.startSlot = std::min(flight.startSlot, use.need);
    }
  }
}

/// The gathers that a list names start where its unit begins, with `exactly`
/// there and else there at the latest; the unit's own in front of them. At one
/// slot come, in this order, what is needed there, what lists name, all else.
static void startByLists(ProgramSchedule &schedule,
                         ArrayRef<PrefetchList> lists,
                         function_ref<bool(ProgramRegion)> exactly) {
  using Key = std::tuple<size_t, size_t, size_t, size_t>;
  std::vector<std::pair<Key, Flight>> placed;
  for (Flight &flight : schedule.getGathers()) {
    // None in front of what is needed before it can start.
    flight.startSlot = std::max(flight.startSlot, flight.ready);
    Key key{flight.startSlot, lists.size(), 0, flight.order};
    bool isPlaced = false;
    for (auto [i, list] : llvm::enumerate(lists)) {
      if (list.region != flight.region || list.begin > flight.need)
        continue;
      bool isOwn = list.unit == flight.unit;
      auto *target = llvm::find(list.targets, flight.unit);
      if (!isOwn && target == list.targets.end())
        continue;
      size_t place = isOwn ? 0 : 1 + (target - list.targets.begin());
      size_t slot = std::max(list.begin, flight.ready);
      Key listed{slot, i, place, flight.order};
      bool wins = !isOwn && !isPlaced && exactly(list.region);
      key = wins ? listed : std::min(key, listed);
      isPlaced = true;
    }
    flight.startSlot = std::get<0>(key);
    if (flight.startSlot == flight.need)
      key = {flight.startSlot, 0, 0, flight.order};
    placed.push_back({key, std::move(flight)});
  }
  llvm::sort(placed,
             [](const auto &a, const auto &b) { return a.first < b.first; });
  for (auto [flight, from] : llvm::zip_equal(schedule.getGathers(), placed))
    flight = std::move(from.second);
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
  llvm::sort(schedule.getGathers(), [](const Flight &a, const Flight &b) {
    return a.order < b.order;
  });
  auto startAhead = [&](std::optional<size_t> forward,
                        std::optional<size_t> backward) {
    if (forward)
      startByDepth(schedule, ProgramRegion::Forward, *forward, choice.lists);
    if (backward)
      startByDepth(schedule, ProgramRegion::Backward, *backward, choice.lists);
    if (!choice.lists.empty())
      startByLists(schedule, choice.lists, [&](ProgramRegion region) {
        return !(region == ProgramRegion::Forward ? forward : backward);
      });
  };
  if (choice.fsdp2) {
    startAhead(choice.forward.value_or(1), choice.backward.value_or(1));
    reduceOneByOne(schedule);
    schedule.holdUpdates(0);
    return;
  }
  startByCost(schedule, choice.margin, skew);
  startAhead(choice.forward, choice.backward);
  double left = reduceByCost(schedule, choice.margin, skew);
  schedule.holdUpdates(choice.holdsUpdates ? left : 0);
}

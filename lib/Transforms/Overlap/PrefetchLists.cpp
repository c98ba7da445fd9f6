// What the model itself says about gathers that start ahead.

#include "Overlap/PrefetchLists.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Transforms/Programs.h"

using namespace mlir;
using namespace fsdp;

/// Whether an op is of a unit's modules, or of modules inside them.
static bool isInside(UnitOp unit, Operation *op) {
  if (unit.getRoot() && unit.getUnitName().empty())
    return true;
  StringRef path = getModulePath(op->getLoc());
  auto isBelow = [&](StringRef module) {
    StringRef rest = path;
    return rest.consume_front(module) &&
           (rest.empty() || rest.starts_with("."));
  };
  if (ArrayAttr modules = unit.getModulesAttr())
    return llvm::any_of(
        modules.getAsRange<StringAttr>(),
        [&](StringAttr module) { return isBelow(module.getValue()); });
  return isBelow(unit.getUnitName());
}

/// Where a unit begins in a region: FSDP2's hook in front of its forward, or of
/// its backward. Nothing where the program has nothing of it.
static std::optional<size_t> getBegin(UnitOp unit, ProgramRegion region,
                                      ProgramSchedule &schedule) {
  std::optional<size_t> begin;
  for (auto [slot, op] : llvm::enumerate(schedule.getSpine())) {
    // What a cast of a parameter is for, its readers say.
    if (isBackward(op) == (region == ProgramRegion::Backward) &&
        !aten::isPrecisionCast(op) && isInside(unit, op)) {
      begin = slot;
      break;
    }
  }
  for (const Flight &flight : schedule.getGathers())
    if (flight.unit == unit.getUnitName() && flight.region == region)
      begin = std::min(begin.value_or(flight.need), flight.need);
  return begin;
}

SmallVector<PrefetchList> fsdp::getPrefetchLists(ModuleOp module,
                                                 ProgramSchedule &schedule) {
  SmallVector<PrefetchList> lists;
  for (UnitOp unit : module.getOps<UnitOp>())
    for (auto [region, names] :
         {std::pair(ProgramRegion::Forward, unit.getPrefetchForwardAttr()),
          std::pair(ProgramRegion::Backward, unit.getPrefetchBackwardAttr())}) {
      if (!names || names.empty())
        continue;
      PrefetchList list{unit.getUnitName(), region, {}, 0};
      for (auto name : names.getAsRange<StringAttr>())
        list.targets.push_back(name.getValue());
      if (std::optional<size_t> begin = getBegin(unit, region, schedule)) {
        list.begin = *begin;
        lists.push_back(std::move(list));
      }
    }
  llvm::stable_sort(lists, [](const PrefetchList &a, const PrefetchList &b) {
    return a.begin < b.begin;
  });
  return lists;
}

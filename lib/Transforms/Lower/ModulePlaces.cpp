// What verify-commands asks of a module's places, over all programs.

#include "Lower/ModulePlaces.h"

#include "fsdp/Analysis/Aliases.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace fsdp;

static uint64_t beginOf(PlaceAttr place) { return place.getOffset(); }
static uint64_t endOf(PlaceAttr place) {
  return place.getOffset() + place.getBytes();
}

bool fsdp::overlap(PlaceAttr a, PlaceAttr b) {
  return a.getArena() == b.getArena() && a.getBytes() && b.getBytes() &&
         beginOf(a) < endOf(b) && beginOf(b) < endOf(a);
}

/// Takes the bytes of `place`; false where some are taken.
static bool take(ByteTimeline &taken, PlaceAttr place) {
  bool isFree = true;
  (void)taken.visit(beginOf(place), endOf(place),
                    [&](const ByteTimeline::Entry &entry) {
                      isFree &= entry.owner == ByteTimeline::nobody;
                      return success();
                    });
  taken.write(beginOf(place), endOf(place), /*owner=*/0, {});
  return isFree;
}

LogicalResult ModulePlaces::check() {
  if (getArenaBytes(module).empty())
    return module.emitError("C2: has no arenas; run --fsdp-plan-memory first");
  for (auto state : module.getOps<StateOp>())
    if (failed(checkState(state)))
      return failure();
  for (func::FuncOp program : getPrograms(module)) {
    for (BlockArgument argument : program.getArguments())
      reach(getPlace(argument));
    for (Operation &op : program.getOps()) {
      if (auto value = dyn_cast<CmdValueOp>(op))
        reach(value.getPlace());
      auto collective = dyn_cast<CmdCollectiveOp>(op);
      if (collective && failed(checkWindow(collective)))
        return failure();
    }
  }
  return success();
}

LogicalResult ModulePlaces::checkPlace(Operation *op, PlaceAttr place,
                                       RankedTensorType type) const {
  if (!place)
    return op->emitError("C2: has no place; run --fsdp-plan-memory first");
  ArrayRef<int64_t> arenas = getArenaBytes(module);
  if (place.getArena() >= int64_t(arenas.size()) ||
      place.getBytes() > arenas[place.getArena()] ||
      place.getOffset() > arenas[place.getArena()] - place.getBytes())
    return op->emitError("C2: has the place ")
           << place << ", which reaches past the end of its arena";
  if (getSpanBytes(type) > place.getBytes())
    return op->emitError("C2: needs ")
           << getSpanBytes(type) << " bytes, its place has "
           << place.getBytes();
  return success();
}

LogicalResult ModulePlaces::checkState(StateOp state) {
  PlaceAttr place = getPlace(state);
  if (state.getFlat())
    return place ? success()
                 : state.emitError("C2: has no place; run --fsdp-plan-memory "
                                   "first"); // Its memory is another state's.
  if (failed(checkPlace(state, place, state.getTensorType())))
    return failure();
  if (place.getArena() == kWindowArena)
    return state.emitOpError("C2: is in arena 1, which shows states and has "
                             "none");
  if (!take(states[place.getArena()], place))
    return state.emitOpError("C2: shares bytes with another state");
  reach(place);
  return success();
}

LogicalResult ModulePlaces::checkWindow(CmdCollectiveOp collective) {
  PlaceAttr to = getPlace(collective.getDestination());
  if (!collective.getMapped())
    return to.getArena() != kWindowArena
               ? success()
               : collective.emitOpError("C12: writes the window, which only "
                                        "mapped gathers do");
  auto from = collective.getSource().getDefiningOp<CmdValueOp>();
  if (to.getArena() != kWindowArena || !from || !from.getState() ||
      collective.getKind() != CollectiveKind::AllGather)
    return collective.emitOpError(
        "C12: is mapped, but does not gather a state into arena 1");
  FlatSymbolRefAttr state = from.getStateAttr();
  auto [it, isNew] = windows.try_emplace(state.getAttr(), to);
  if (isNew && !take(shown, to))
    return collective.emitOpError("C12: shows the state ")
           << state << " where another is shown";
  if (it->second != to)
    return collective.emitOpError("C12: shows the state ")
           << state << " at " << to << ", and another gather at " << it->second;
  return success();
}

LogicalResult ModulePlaces::checkSizes() {
  for (auto [arena, bytes] : llvm::enumerate(getArenaBytes(module)))
    if (int64_t(llvm::alignTo(ends[arena], kAlignment)) != bytes)
      return module.emitError("C13: arena ")
             << arena << " has " << bytes << " bytes, its places end at "
             << ends[arena];
  return success();
}

void ModulePlaces::reach(PlaceAttr place) {
  if (place && place.getArena() < int64_t(std::size(ends)))
    ends[place.getArena()] = std::max(ends[place.getArena()], endOf(place));
}

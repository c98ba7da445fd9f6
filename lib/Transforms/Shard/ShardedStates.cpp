// Rules of sharded states.

#include "Shard/ShardedStates.h"

#include "Shard/ElementRanges.h"

#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;

namespace {

class ShardedStates {
public:
  ShardedStates(ModuleOp module, SymbolTable &table)
      : table(table), shards(Mesh(module).getNumShards()),
        shardAxes(Mesh(module).getAxes(AxisRole::Shard)) {
    for (UnitOp unit : module.getOps<UnitOp>())
      units.insert(unit.getUnitName());
  }

  LogicalResult verify(StateOp state);

private:
  LogicalResult verifySharding(StateOp state);
  LogicalResult verifyMember(StateOp state);
  LogicalResult verifyFlat(StateOp state);

  SymbolTable &table;
  int64_t shards;
  SmallVector<int64_t> shardAxes;
  llvm::StringSet<> units;
  llvm::DenseMap<StateOp, ElementRanges> members; // of flat states
};

} // namespace

LogicalResult ShardedStates::verify(StateOp state) {
  if (state.getRole() == Role::Parameter && !state.getReplicated() &&
      (!state.getUnit() || !units.contains(*state.getUnit())))
    return state.emitOpError("S1: the parameter belongs to no unit that "
                             "exists; run fsdp-assign-units");
  if (state.getSharding() && failed(verifySharding(state)))
    return failure();
  if (state.getIsFlat() && failed(verifyFlat(state)))
    return failure();
  if (state.getFlat() && failed(verifyMember(state)))
    return failure();
  if (state.getRole() == Role::Optimizer) {
    auto parameter = table.lookup<StateOp>(*state.getParameter());
    auto isSplitAlike = [&] {
      return parameter.getGlobalType().getShape() ==
                     state.getGlobalType().getShape()
                 ? parameter.getSharding() == state.getSharding()
                 : bool(parameter.getSharding()) == bool(state.getSharding());
    };
    if (!parameter || !isSplitAlike())
      return state.emitOpError()
             << "S3: optimizer state is not split as its parameter "
             << state.getParameterAttr();
  }
  return success();
}

LogicalResult ShardedStates::verifySharding(StateOp state) {
  auto axes = state.getSharding()->getSplitAxes().getAxes();
  std::optional<int64_t> split = state.getShardDim();
  bool isOne = split && *split + 1 == int64_t(axes.size()) &&
               llvm::equal(axes[*split].asArrayRef(), shardAxes);
  if (!isOne ||
      !table.lookup<shard::GridOp>(state.getSharding()->getGrid().getValue()))
    return state.emitOpError("S2: the sharding does not split one dimension "
                             "over the shard axis of a grid that exists");
  if (!state.getGlobal())
    return state.emitOpError("S2: the type is that of the whole tensor; run "
                             "fsdp-localize");
  SmallVector<int64_t> part(state.getGlobalType().getShape());
  size_t dim = *split;
  bool isPart = dim < part.size();
  if (isPart) {
    isPart = dim == 0 || part[dim] % shards == 0;
    part[dim] = getLocalRows(part[dim], shards);
  }
  if (!isPart || state.getTensorType().getShape() != ArrayRef<int64_t>(part))
    return state.emitOpError()
           << "S2: " << state.getType() << " is not one of " << shards
           << " parts of " << state.getGlobalType();
  return success();
}

LogicalResult ShardedStates::verifyMember(StateOp state) {
  auto flat = table.lookup<StateOp>(*state.getFlat());
  RankedTensorType type = state.getTensorType();
  if (!flat || !flat.getIsFlat() || flat.getRole() != state.getRole() ||
      flat.getUnitAttr() != state.getUnitAttr() ||
      flat.getTensorType().getElementType() != type.getElementType())
    return state.emitOpError()
           << "S9: lies in " << state.getFlatAttr()
           << ", which is no flat state of its role, unit and element type";
  int64_t begin = *state.getFlatOffset();
  if (state.getRole() == Role::Parameter &&
      begin * getElementBytes(type.getElementType()) % kAlignment)
    return state.emitOpError()
           << "S9: begins at element " << begin
           << ", which is not at a multiple of " << kAlignment << " bytes";
  int64_t end = begin + type.getNumElements();
  if (end > flat.getGlobalType().getNumElements() ||
      failed(members[flat].add(begin, end)))
    return state.emitOpError()
           << "S9: has the elements " << begin << " to " << end << " of "
           << state.getFlatAttr() << ", which are another's or do not exist";
  if (state.getRole() != Role::Optimizer)
    return success();
  auto parameter = table.lookup<StateOp>(*state.getParameter());
  if (!parameter || parameter.getFlatAttr() != flat.getParameterAttr() ||
      parameter.getFlatOffset() != state.getFlatOffset())
    return state.emitOpError("S9: lies elsewhere than its parameter ")
           << state.getParameterAttr();
  return success();
}

LogicalResult ShardedStates::verifyFlat(StateOp state) {
  RankedTensorType piece = state.getTensorType();
  int64_t unit = state.getMapped()                    ? kPageBytes
                 : state.getRole() == Role::Parameter ? kAlignment
                                                      : 1;
  if (!state.getSharding() ||
      piece.getNumElements() * shards !=
          state.getGlobalType().getNumElements() ||
      getTensorBytes(piece) % unit)
    return state.emitOpError()
           << "S10: is not cut into " << shards
           << " equal pieces of a multiple of " << unit << " bytes";
  return success();
}

LogicalResult fsdp::verifyShardedStates(ModuleOp module, SymbolTable &table) {
  ShardedStates states(module, table);
  bool ok = true;
  for (StateOp state : module.getOps<StateOp>())
    ok &= succeeded(states.verify(state));
  return success(ok);
}

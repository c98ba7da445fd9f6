// When a program's memory is in use.

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "plan/PlanTypes.h"

#include "llvm/ADT/MapVector.h"

#include <algorithm>

using namespace mlir;
using namespace fsdp;

namespace {
/// What a program does to one state, by the numbers of the ops.
struct StateUses {
  struct Load {
    size_t storage;
    int64_t time;
  };
  SmallVector<Load, 2> loads;
  SmallVector<int64_t, 2> writes;
  SmallVector<StoreOp, 1> stores;
};
} // namespace

/// Calls `visit` with what is in use until a wait: the sources of its start,
/// and of those that its start's stream has waited for. On the stream of
/// compute a collective is over before the next op.
static void forEachSource(WaitOp wait, function_ref<void(Value)> visit) {
  auto start = wait.getFuture().getDefiningOp<TimelineOpInterface>();
  if (!start || start.getStream() == plan::computeStream)
    return;
  for (Value source : start->getOperands()) {
    visit(source);
    if (auto earlier = source.getDefiningOp<WaitOp>();
        earlier && earlier.getStream() != plan::computeStream)
      forEachSource(earlier, visit);
  }
}

/// The state whose window a mapped gather shows.
static LoadOp getMappedSource(Operation *op) {
  auto gather = dyn_cast<CollectiveOpInterface>(op);
  return gather && gather.getMapped()
             ? gather->getOperand(0).getDefiningOp<LoadOp>()
             : LoadOp();
}

/// Decides, once all uses are known, what lies in a state's own memory.
static void settle(StateOp state, const StateUses &uses,
                   MutableArrayRef<ProgramLiveness::Storage> storages,
                   const DenseMap<Value, size_t> &indices) {
  using Storage = ProgramLiveness::Storage;
  // A load that is read at or after a write of its state keeps the old value:
  // it must have memory of its own.
  for (auto [index, loaded] : uses.loads) {
    Storage &storage = storages[index];
    if (llvm::any_of(uses.writes, [&, loaded = loaded](int64_t written) {
          return written > loaded && written <= storage.block.last;
        }))
      storage.state = nullptr;
  }
  // What the only store gives is computed in the state's memory, if by then
  // nobody reads what lies there.
  if (uses.writes.size() != 1 || uses.stores.size() != 1)
    return;
  StoreOp store = uses.stores.front();
  auto it = indices.find(store.getValue());
  if (it == indices.end())
    return;
  Storage &given = storages[it->second];
  bool fits = !given.state && given.root.getDefiningOp<aten::CallOp>() &&
              given.root.getType() == state.getTensorType();
  bool free = llvm::none_of(uses.loads, [&](StateUses::Load load) {
    const Storage &old = storages[load.storage];
    int64_t read = old.state ? old.block.last : load.time;
    return load.time < uses.writes.front() && read >= given.block.first;
  });
  if (fits && free)
    given.state = state;
}

FailureOr<ProgramLiveness> ProgramLiveness::compute(func::FuncOp program) {
  if (!program.getBody().hasOneBlock())
    return program.emitError("program '")
           << program.getSymName() << "' is not one block of ops; "
           << "control flow cannot be planned";
  for (Type type : program.getArgumentTypes())
    if (isa<TensorType>(type) && !isMemory(type))
      return program.emitError("program '")
             << program.getSymName() << "' takes " << type
             << ", whose bytes cannot be counted; shapes are static in a plan";
  Block &block = program.getBody().front();
  ProgramLiveness result(block);
  const Aliases &aliases = result.aliases;
  SymbolTableCollection tables;
  auto lookup = [&](Operation *op, FlatSymbolRefAttr name) {
    return tables.lookupNearestSymbolFrom<StateOp>(op, name);
  };
  // Where memory is that nothing has touched yet.
  auto getArena = [&](Value value) -> int64_t {
    Operation *def = value.getDefiningOp();
    if (auto load = dyn_cast_or_null<LoadOp>(def)) {
      StateOp state = lookup(load, load.getStateAttr());
      return state && state.getOnHost() ? kHostArena : kDeviceArena;
    }
    if (auto start = dyn_cast_or_null<StartOpInterface>(def);
        start && start.isToHost())
      return kHostArena;
    if (isa_and_nonnull<aten::CallOp, PackOp, UnpackOp>(def))
      for (Value operand : def->getOperands())
        if (const Storage *storage = result.getStorage(operand))
          return storage->arena == kHostArena ? kHostArena : kDeviceArena;
    return kDeviceArena;
  };
  auto touch = [&](Value value, int64_t time) -> Storage * {
    std::optional<RankedTensorType> type = getMemoryType(value);
    if (!type)
      return nullptr;
    Value owner = aliases.getOwner(value);
    auto [it, isNew] =
        result.indices.try_emplace(owner, result.storages.size());
    if (isNew)
      result.storages.push_back(
          {owner, LiveBlock{time, time, getSpanBytes(*getMemoryType(owner))},
           nullptr, getArena(value)});
    Storage &storage = result.storages[it->second];
    storage.block.last = std::max(storage.block.last, time);
    return &storage;
  };

  llvm::MapVector<Operation *, StateUses> states;

  for (BlockArgument argument : block.getArguments())
    touch(argument, -1);
  int64_t time = 0;
  for (Operation &op : block) {
    for (Value operand : op.getOperands())
      touch(operand, time);
    if (auto wait = dyn_cast<WaitOp>(op))
      forEachSource(wait, [&](Value source) { touch(source, time); });
    for (OpResult value : op.getResults()) {
      Storage *storage = touch(value, time);
      if (auto load = dyn_cast<LoadOp>(op)) {
        storage->state = lookup(load, load.getStateAttr());
        states[storage->state].loads.push_back(
            {result.indices.lookup(value), time});
      } else if (LoadOp source = getMappedSource(&op)) {
        storage->state = lookup(source, source.getStateAttr());
        storage->arena = kWindowArena;
      } else if (auto start = dyn_cast<StartOpInterface>(op);
                 start && start.getIntoAttr()) {
        storage->state = lookup(&op, start.getIntoAttr());
      }
    }
    if (auto access = dyn_cast<StateAccessOpInterface>(op))
      for (FlatSymbolRefAttr name : access.getWrittenStates())
        states[lookup(&op, name)].writes.push_back(time);
    if (auto store = dyn_cast<StoreOp>(op))
      states[lookup(store, store.getStateAttr())].stores.push_back(store);
    ++time;
  }

  for (auto &[op, uses] : states)
    if (op) // No such state: whoever needs its place says so.
      settle(cast<StateOp>(op), uses, result.storages, result.indices);
  return result;
}

const ProgramLiveness::Storage *ProgramLiveness::getStorage(Value value) const {
  auto it = indices.find(aliases.getOwner(value));
  return it == indices.end() ? nullptr : &storages[it->second];
}

int64_t ProgramLiveness::getOffset(Value value) const {
  auto part = aliases.getPart(aliases.getRoot(value));
  return part ? part->offset : 0;
}

void ProgramLiveness::dump(raw_ostream &os) const {
  for (const Storage &storage : storages) {
    os << storage.block.first << ".." << storage.block.last << " "
       << storage.block.bytes << " B";
    if (storage.state)
      os << (storage.arena == kWindowArena ? " window of @" : " state @")
         << StateOp(storage.state).getSymName();
    os << " " << storage.root << "\n";
  }
}

int64_t ProgramLiveness::getPeakBytes() const {
  SmallVector<LiveBlock> blocks;
  for (const Storage &storage : storages)
    if (!storage.state)
      blocks.push_back(storage.block);
  return fsdp::getPeakBytes(blocks);
}

int64_t fsdp::getStateBytes(ModuleOp module) {
  int64_t bytes = 0;
  for (StateOp state : module.getOps<StateOp>())
    if (!state.getFlat() && !state.getOnHost())
      bytes += llvm::alignTo(getSpanBytes(state.getTensorType()), kAlignment);
  return bytes;
}

LogicalResult ProgramLiveness::verify(func::FuncOp program) const {
  int64_t time = 0;
  for (Operation &op : program.getBody().front()) {
    for (Value operand : op.getOperands())
      if (const Storage *storage = getStorage(operand);
          storage &&
          (time < storage->block.first || time > storage->block.last))
        return op.emitOpError("reads memory outside the time it is live");
    ++time;
  }
  return success();
}

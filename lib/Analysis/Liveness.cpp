// When a program's memory is in use.

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Dialect/Aten/Aten.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

int64_t fsdp::getSpanBytes(RankedTensorType type) {
  if (type.getNumElements() == 0)
    return 0;
  int64_t last = 0;
  for (auto [size, stride] :
       llvm::zip_equal(type.getShape(), aten::getStrides(type)))
    last += (size - 1) * stride;
  return (last + 1) * getElementBytes(type.getElementType());
}

std::optional<RankedTensorType> fsdp::getMemoryType(Value value) {
  if (auto future = dyn_cast<FutureType>(value.getType()))
    return future.getType();
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    return tensor;
  return std::nullopt;
}

/// The operand whose memory `result` is; null where it has its own.
static Value getAliased(OpResult result) {
  return llvm::TypeSwitch<Operation *, Value>(result.getOwner())
      .Case<aten::CallOp>([&](aten::CallOp call) -> Value {
        if (auto operand = call.getAliasedOperand(result.getResultNumber()))
          return call.getInputs()[*operand];
        return {};
      })
      .Case<WaitOp>([](WaitOp wait) { return wait.getFuture(); })
      .Default(Value());
}

FailureOr<ProgramLiveness> ProgramLiveness::compute(func::FuncOp program) {
  if (!program.getBody().hasOneBlock())
    return program.emitError("program '")
           << program.getSymName() << "' is not one block of ops; "
           << "control flow cannot be planned";
  Block &block = program.getBody().front();
  ProgramLiveness result;
  auto add = [&](Value value, int64_t time) {
    std::optional<RankedTensorType> type = getMemoryType(value);
    if (!type)
      return;
    result.indices[value] = result.storages.size();
    result.storages.push_back(
        {value, LiveBlock{time, time, getSpanBytes(*type)}, nullptr});
  };

  SymbolTableCollection tables;
  SmallVector<std::pair<size_t, int64_t>> loads; // storage, time
  SmallVector<std::pair<int64_t, Operation *>> stateWrites;
  auto lookup = [&](Operation *op, FlatSymbolRefAttr name) {
    return tables.lookupNearestSymbolFrom<StateOp>(op, name);
  };

  for (BlockArgument argument : block.getArguments())
    add(argument, -1);
  int64_t time = 0;
  for (Operation &op : block) {
    for (Value operand : op.getOperands())
      if (getMemoryType(operand)) {
        LiveBlock &live =
            result.storages[result.indices[result.getRoot(operand)]].block;
        live.last = std::max(live.last, time);
      }
    for (OpResult value : op.getResults()) {
      if (!getMemoryType(value))
        continue;
      if (Value aliased = getAliased(value))
        result.roots[value] = result.getRoot(aliased);
      else
        add(value, time);
    }
    if (auto load = dyn_cast<LoadOp>(op)) {
      size_t index = result.indices[load.getResult()];
      result.storages[index].state = lookup(load, load.getStateAttr());
      loads.emplace_back(index, time);
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      stateWrites.emplace_back(time, lookup(store, store.getStateAttr()));
    } else if (auto update = dyn_cast<UpdateOp>(op)) {
      stateWrites.emplace_back(time, lookup(update, update.getParameterAttr()));
      for (Attribute state : update.getStates())
        stateWrites.emplace_back(
            time, lookup(update, cast<FlatSymbolRefAttr>(state)));
    }
    ++time;
  }

  // A load that is read at or after a write of its state keeps the old value:
  // it must have memory of its own.
  for (auto [index, loaded] : loads) {
    Storage &storage = result.storages[index];
    for (auto [written, state] : stateWrites)
      if (state == storage.state.getOperation() && written > loaded &&
          written <= storage.block.last) {
        storage.state = nullptr;
        break;
      }
  }
  return result;
}

Value ProgramLiveness::getRoot(Value value) const {
  auto it = roots.find(value);
  return it == roots.end() ? value : it->second;
}

const ProgramLiveness::Storage *ProgramLiveness::getStorage(Value value) const {
  auto it = indices.find(getRoot(value));
  return it == indices.end() ? nullptr : &storages[it->second];
}

int64_t ProgramLiveness::getPeakBytes() const {
  SmallVector<LiveBlock> blocks;
  for (const Storage &storage : storages)
    if (!storage.state)
      blocks.push_back(storage.block);
  return fsdp::getPeakBytes(blocks);
}

void ProgramLiveness::dump(raw_ostream &os) const {
  for (const Storage &storage : storages) {
    os << storage.block.first << ".." << storage.block.last << " "
       << storage.block.bytes << " B";
    if (storage.state)
      os << " state @" << StateOp(storage.state).getSymName();
    os << " " << storage.root << "\n";
  }
  os << "peak " << getPeakBytes() << " B\n";
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

// fsdp-insert-unshard.

#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_INSERTUNSHARD
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// A value that is a parameter's own memory, or its cast to what the unit
/// computes in: the load, and the cast and the views that lead from it to the
/// value, first to last.
struct Chain {
  LoadOp load;
  SmallVector<aten::CallOp> views;
};

/// Follows views and casts up to a load. Views of the backward pass are readers
/// themselves, so the chain does not pass through them.
std::optional<Chain> traceToLoad(Value value) {
  Chain chain;
  while (Operation *op = value.getDefiningOp()) {
    if (auto load = dyn_cast<LoadOp>(op)) {
      chain.load = load;
      std::reverse(chain.views.begin(), chain.views.end());
      return chain;
    }
    auto call = dyn_cast<aten::CallOp>(op);
    if (!call || isBackward(call))
      return std::nullopt;
    std::optional<unsigned> operand;
    if (aten::isPrecisionCast(call))
      operand = 0;
    else if (call.isView())
      operand = call.getAliasedOperand(cast<OpResult>(value).getResultNumber());
    if (!operand)
      return std::nullopt;
    chain.views.push_back(call);
    value = call->getOperand(*operand);
  }
  return std::nullopt;
}

class InsertUnshard : public fsdp::impl::InsertUnshardBase<InsertUnshard> {
public:
  using InsertUnshardBase::InsertUnshardBase;

  void runOnModule() override;

private:
  LogicalResult readOption(ModuleOp module);
  LogicalResult checkRanks(ModuleOp module);
  void readOwn(OpOperand &use, const SymbolTable &table);
  void repeatForBackward(OpOperand &use, const SymbolTable &table);
  /// What the unit says itself wins over the option. What has no elements has
  /// no memory to give back, and nothing to gather again.
  bool reshards(StateOp state) {
    if (state.getTensorType().getNumElements() == 0)
      return false;
    UnitOp unit = units.lookup(*state.getUnit());
    if (unit && unit.getReshard())
      return *unit.getReshard();
    return reshardAfterForward == "true" ||
           (reshardAfterForward == "auto" && !(unit && unit.getRoot()));
  }
  /// A gather of the load in front of the reader.
  Value createUnshard(OpBuilder &builder, Operation *reader, LoadOp load,
                      StateOp state, ProgramRegion region) {
    return UnshardOp::create(builder, reader->getLoc(), load.getType(),
                             load.getResult(), *state.getUnit(), region);
  }
  StateOp getSharded(LoadOp load, const SymbolTable &table) {
    auto state = table.lookup<StateOp>(load.getState());
    return state && state.getSharding() && state.getRole() == Role::Parameter
               ? state
               : StateOp();
  }

  llvm::StringMap<UnitOp> units;
};

/// A reader in backward gets the parameter, and the views of it that forward
/// computed, anew.
void InsertUnshard::repeatForBackward(OpOperand &use,
                                      const SymbolTable &table) {
  std::optional<Chain> chain = traceToLoad(use.get());
  if (!chain)
    return;
  StateOp state = getSharded(chain->load, table);
  if (!state || !reshards(state))
    return;
  Operation *reader = use.getOwner();
  OpBuilder builder(reader);
  IRMapping mapping;
  mapping.map(chain->load.getResult(),
              createUnshard(builder, reader, chain->load, state,
                            ProgramRegion::Backward));
  for (aten::CallOp view : chain->views)
    cast<aten::CallOp>(builder.clone(*view, mapping)).setBackward(true);
  use.set(mapping.lookup(use.get()));
}

/// A reader of the load itself, or of its cast, gets a gather of its own.
void InsertUnshard::readOwn(OpOperand &use, const SymbolTable &table) {
  Operation *reader = use.getOwner();
  Value source = aten::lookThroughPrecisionCast(use.get());
  auto load = source.getDefiningOp<LoadOp>();
  StateOp state = load ? getSharded(load, table) : StateOp();
  if (!state || isa<UnshardOp>(reader) || aten::isPrecisionCast(reader))
    return;
  OpBuilder builder(reader);
  Value whole =
      createUnshard(builder, reader, load, state, ProgramRegion::Forward);
  if (source != use.get()) {
    IRMapping mapping;
    mapping.map(source, whole);
    whole = builder.clone(*use.get().getDefiningOp(), mapping)->getResult(0);
  }
  use.set(whole);
}

/// A number of ranks becomes what each unit says that says nothing itself.
LogicalResult InsertUnshard::readOption(ModuleOp module) {
  std::optional<int64_t> ranks;
  if (failed(readOptions(
          module, [&] { ranks = readReshardRanks(reshardAfterForward); })))
    return failure();
  if (!ranks)
    return success();
  Builder builder(&getContext());
  for (UnitOp unit : module.getOps<UnitOp>())
    if (!unit.getReshard() && !unit.getReshardRanks())
      unit.setReshardRanksAttr(builder.getI64IntegerAttr(*ranks));
  return success();
}

/// Numbers of ranks are divisors of the shards from here on, neither 1 nor all.
LogicalResult InsertUnshard::checkRanks(ModuleOp module) {
  int64_t shards = Mesh(module).getNumShards();
  for (UnitOp unit : module.getOps<UnitOp>()) {
    std::optional<uint64_t> ranks = unit.getReshardRanks();
    if (!ranks)
      continue;
    if (*ranks < 1 || (shards > 1 && shards % *ranks))
      return ofKind(E::Option, unit.emitError())
             << "unit \"" << unit.getUnitName()
             << "\" is to keep a secondary shard over " << *ranks
             << " ranks after forward, which does not divide the " << shards
             << " that parameters are sharded over; give a divisor";
    unit.setReshard(*ranks > 1);
    if (*ranks == 1 || int64_t(*ranks) >= shards)
      unit.removeReshardRanksAttr();
  }
  return success();
}

void InsertUnshard::runOnModule() {
  ModuleOp module = getOperation();
  if (failed(readOption(module)) || failed(checkRanks(module)))
    return signalPassFailure();
  units = getUnits(module);
  SymbolTable table(module);
  for (func::FuncOp program : getPrograms(module)) {
    eraseDeadOps(program);
    SmallVector<Operation *> readers;
    program.walk([&](Operation *op) { readers.push_back(op); });
    // Backward first: the chains still end at their loads.
    for (Operation *reader : readers)
      if (isBackward(reader))
        for (OpOperand &use : reader->getOpOperands())
          repeatForBackward(use, table);
    for (Operation *reader : readers)
      for (OpOperand &use : reader->getOpOperands())
        readOwn(use, table);
    // Views that only backward read are dead in forward now.
    eraseDeadOps(program);

    llvm::MapVector<std::pair<StringRef, ProgramRegion>, int> counts;
    program.walk([&](UnshardOp op) {
      ++counts[{op.getUnit(), op.getRegion()}];
    });
    for (auto &[key, count] : counts)
      remarkPassed(R::UnshardedUnit, program.getLoc(), program.getSymName())
          << "each reader has a gather" << metrics::Unit(key.first)
          << metrics::Region(stringifyProgramRegion(key.second))
          << metrics::Readers(count);
  }
}

} // namespace

// fsdp-offload-state.

#include "Remarks.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSwitch.h"

#include <optional>

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADSTATE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// What of a parameter is on the host, and whether in pinned memory.
struct OnHost {
  bool parameter = false, optimizer = false, pinned = true;
};

class OffloadState : public fsdp::impl::OffloadStateBase<OffloadState> {
public:
  using OffloadStateBase::OffloadStateBase;

private:
  void runOnModule() override;
  OnHost getOffloaded(StateOp parameter);
  LogicalResult moveStates(const SymbolTable &table, bool &any);
  void moveToHost(StateOp state);
  void fetch(LoadOp load, StateOp state);
  void moveUpdates(func::FuncOp program, const SymbolTable &table);
  UpdateOp stage(UpdateOp update, StateOp parameter, Value &staged);

  llvm::StringMap<UnitOp> units;
  OnHost asked; // by the option
  bool pinned = true;
};

/// What the parameter's unit says, else the option.
OnHost OffloadState::getOffloaded(StateOp parameter) {
  if (parameter.getReplicated() || parameter.getFlat())
    return {};
  UnitOp unit =
      parameter.getUnit() ? units.lookup(*parameter.getUnit()) : UnitOp();
  if (unit && unit.getOffload())
    return {true, true, unit.getPinMemory().value_or(true)};
  return asked;
}

/// `any`: whether one was moved.
LogicalResult OffloadState::moveStates(const SymbolTable &table, bool &any) {
  for (StateOp state : getOperation().getOps<StateOp>()) {
    bool isOptimizer = state.getRole() == Role::Optimizer;
    if (!isOptimizer && state.getRole() != Role::Parameter)
      continue;
    StateOp parameter =
        isOptimizer ? table.lookup<StateOp>(*state.getParameter()) : state;
    OnHost offloaded = parameter ? getOffloaded(parameter) : OnHost();
    if (!(isOptimizer ? offloaded.optimizer : offloaded.parameter))
      continue;
    if (!parameter.getUnit())
      return state.emitOpError("is of a parameter without a unit; run "
                               "fsdp-assign-units before fsdp-offload-state");
    if (state.getOnHost())
      return state.emitOpError(
          "is on the host already; run fsdp-offload-state once");
    pinned &= offloaded.pinned;
    moveToHost(state);
    any = true;
  }
  return success();
}

void OffloadState::moveToHost(StateOp state) {
  state.setOnHost(true);
  // Other ranks see no host memory: what is fetched is gathered by copying.
  state.setMapped(false);
  remarkPassed(R::OffloadedState, state.getLoc())
      << "it is on the host" << metrics::State(state.getSymName())
      << metrics::BytesPerRank(getTensorBytes(state.getTensorType()));
}

/// Each region's readers read a copy of their own.
void OffloadState::fetch(LoadOp load, StateOp state) {
  llvm::MapVector<ProgramRegion, SmallVector<Operation *>> readers;
  for (Operation *reader : load->getUsers()) {
    auto collective = dyn_cast<CollectiveOpInterface>(reader);
    std::optional<ProgramRegion> region =
        collective ? collective.getRegion() : std::nullopt;
    readers[region.value_or(isBackward(reader) ? ProgramRegion::Backward
                                               : ProgramRegion::Forward)]
        .push_back(reader);
  }
  for (auto &[region, ops] : readers) {
    OpBuilder builder(*llvm::min_element(
        ops, [](auto *a, auto *b) { return a->isBeforeInBlock(b); }));
    auto fetched = FetchOp::create(builder, load.getLoc(), load.getType(),
                                   load.getResult(), *state.getUnit(), region);
    load.getResult().replaceUsesWithIf(fetched, [&](OpOperand &use) {
      return llvm::is_contained(ops, use.getOwner());
    });
  }
}

/// An update runs where the optimizer states are; without any, where the
/// parameter is.
bool isUpdatedOnHost(UpdateOp update, StateOp parameter,
                     const SymbolTable &table) {
  StateOp where = parameter;
  for (auto name : update.getStates().getAsRange<FlatSymbolRefAttr>())
    where = table.lookup<StateOp>(name.getValue());
  return where && where.getOnHost();
}

/// Lets an update change `staged`, the parameter where the optimizer states
/// are: a copy of it, or what the update before has given.
UpdateOp OffloadState::stage(UpdateOp update, StateOp parameter,
                             Value &staged) {
  OpBuilder builder(update);
  Location loc = update.getLoc();
  if (!staged) {
    Value part = LoadOp::create(builder, loc, parameter.getTensorType(),
                                update.getParameterAttr());
    if (parameter.getOnHost())
      staged = FetchOp::create(builder, loc, part.getType(), part,
                               *parameter.getUnit(), ProgramRegion::Update);
    else
      staged = OffloadOp::create(builder, loc, part.getType(), part,
                                 parameter.getUnitAttr());
  }
  auto changing = UpdateOp::create(
      builder, loc, staged.getType(), update.getRuleAttr(),
      update.getParameterAttr(), update.getGradient(), update.getStatesAttr(),
      update.getBeginAttr(), update.getEndAttr(), update.getScale(),
      update.getSkip(), staged, update.getGiven());
  changing->setDiscardableAttrs(update->getDiscardableAttrDictionary());
  update.erase();
  staged = changing.getResult();
  return changing;
}

void OffloadState::moveUpdates(func::FuncOp program, const SymbolTable &table) {
  // A flat gradient has several updates, what scales them is one for all.
  llvm::DenseMap<Value, Value> offloaded;
  // What the updates of a flat parameter change, and the last of them.
  llvm::MapVector<StateOp, std::pair<Value, UpdateOp>> stagings;
  for (UpdateOp update :
       llvm::make_early_inc_range(program.getOps<UpdateOp>())) {
    auto parameter = table.lookup<StateOp>(update.getParameter());
    if (!parameter)
      continue;
    bool onHost = isUpdatedOnHost(update, parameter, table);
    for (OpOperand &operand : update->getOpOperands()) {
      if (!onHost)
        break;
      Value value = operand.get();
      Value &copy = offloaded[value];
      if (!copy) {
        OpBuilder builder(update);
        if (Operation *source = value.getDefiningOp())
          builder.setInsertionPointAfter(source);
        Value rowMajor = createRowMajor(builder, value);
        copy = OffloadOp::create(builder, value.getLoc(), rowMajor.getType(),
                                 rowMajor, parameter.getUnitAttr());
      }
      operand.set(copy);
    }
    if (onHost == parameter.getOnHost())
      continue;
    auto &[staged, last] = stagings[parameter];
    last = stage(update, parameter, staged);
  }
  for (auto &[parameter, staging] : stagings) {
    auto [staged, last] = staging;
    OpBuilder builder(&getContext());
    builder.setInsertionPointAfter(last);
    StoreOp::create(builder, last.getLoc(), staged, last.getParameterAttr());
  }
}

void OffloadState::runOnModule() {
  ModuleOp module = getOperation();
  bool all = offload == Offload::All;
  asked = {/*parameter=*/all || offload == Offload::Params,
           /*optimizer=*/all || offload == Offload::Optimizer, pinMemory};
  SymbolTable table(module);
  units = getUnits(module);
  bool any = false;
  if (failed(moveStates(table, any)))
    return signalPassFailure();
  if (!any)
    return;
  if (pinned)
    kPinMemoryAttr.set(module);
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<LoadOp> loads(program.getOps<LoadOp>());
    for (LoadOp load : loads)
      if (auto state = table.lookup<StateOp>(load.getState());
          state && state.getOnHost())
        fetch(load, state);
    moveUpdates(program, table);
  }
}

} // namespace

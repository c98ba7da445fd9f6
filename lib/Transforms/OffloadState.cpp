// fsdp-offload-state.

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {
#define GEN_PASS_DEF_OFFLOADSTATE
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class OffloadState : public fsdp::impl::OffloadStateBase<OffloadState> {
public:
  using OffloadStateBase::OffloadStateBase;

private:
  void runOnOperation() override;
  bool isOffloaded(StateOp parameter, const SymbolTable &table);
  void moveToHost(StateOp state);
  void fetch(LoadOp load, StateOp state);
  void offloadGradients(func::FuncOp program, const SymbolTable &table);

  llvm::StringMap<UnitOp> units;
  bool pinned = true;
};

/// What the parameter's unit says, else the option.
bool OffloadState::isOffloaded(StateOp parameter, const SymbolTable &table) {
  if (!parameter || parameter.getReplicated() || parameter.getFlat())
    return false;
  UnitOp unit =
      parameter.getUnit() ? units.lookup(*parameter.getUnit()) : UnitOp();
  bool asked = unit && unit.getOffload();
  if (!asked && offload == "none")
    return false;
  pinned &= asked ? unit.getPinMemory().value_or(true) : pinMemory;
  return true;
}

void OffloadState::moveToHost(StateOp state) {
  state.setOnHost(true);
  // Other ranks see no host memory: what is fetched is gathered by copying.
  state.setMapped(false);
  remark::passed(state.getLoc(), remark::RemarkOpts::name("offload").category(
                                     "fsdp-offload-state"))
      << "\"" + state.getSymName().str() +
             "\": " + std::to_string(getTensorBytes(state.getTensorType())) +
             " bytes per rank are on the host";
}

/// Each region's readers read a copy of their own.
void OffloadState::fetch(LoadOp load, StateOp state) {
  llvm::MapVector<StringAttr, SmallVector<Operation *>> readers;
  Builder names(&getContext());
  for (Operation *reader : load->getUsers()) {
    auto region = reader->getAttrOfType<StringAttr>("fsdp.region");
    if (!region)
      region = names.getStringAttr(isBackward(reader) ? "backward" : "forward");
    readers[region].push_back(reader);
  }
  for (auto &[region, ops] : readers) {
    OpBuilder builder(*llvm::min_element(
        ops, [](auto *a, auto *b) { return a->isBeforeInBlock(b); }));
    auto fetched =
        FetchOp::create(builder, load.getLoc(), load.getType(),
                        load.getResult(), state.getUnitAttr(), region);
    load.getResult().replaceUsesWithIf(fetched, [&](OpOperand &use) {
      return llvm::is_contained(ops, use.getOwner());
    });
  }
}

void OffloadState::offloadGradients(func::FuncOp program,
                                    const SymbolTable &table) {
  // A flat gradient has several updates, what scales them is one for all.
  llvm::DenseMap<Value, Value> offloaded;
  for (auto update : program.getOps<UpdateOp>()) {
    auto parameter = table.lookup<StateOp>(update.getParameter());
    if (!parameter || !parameter.getOnHost())
      continue;
    for (OpOperand &operand : update->getOpOperands()) {
      Value value = operand.get();
      Value &onHost = offloaded[value];
      if (!onHost) {
        OpBuilder builder(update);
        if (Operation *source = value.getDefiningOp())
          builder.setInsertionPointAfter(source);
        Value rowMajor = createRowMajor(builder, value);
        onHost = OffloadOp::create(builder, value.getLoc(), rowMajor.getType(),
                                   rowMajor, parameter.getUnitAttr());
      }
      operand.set(onHost);
    }
  }
}

void OffloadState::runOnOperation() {
  ModuleOp module = getOperation();
  if (offload != "none" && offload != "all") {
    module.emitError() << "offload=" << offload
                       << " does not exist; there are none and all";
    return signalPassFailure();
  }
  SymbolTable table(module);
  units = getUnits(module);
  bool any = false;
  for (StateOp state : module.getOps<StateOp>()) {
    StateOp parameter = state.getRole() == Role::Optimizer
                            ? table.lookup<StateOp>(*state.getParameter())
                        : state.getRole() == Role::Parameter ? state
                                                             : StateOp();
    if (!isOffloaded(parameter, table))
      continue;
    moveToHost(state);
    any = true;
  }
  if (any && pinned)
    module->setAttr(kPinMemoryAttrName, UnitAttr::get(&getContext()));
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<LoadOp> loads(program.getOps<LoadOp>());
    for (LoadOp load : loads)
      if (auto state = table.lookup<StateOp>(load.getState());
          state && state.getOnHost())
        fetch(load, state);
    offloadGradients(program, table);
  }
}

} // namespace

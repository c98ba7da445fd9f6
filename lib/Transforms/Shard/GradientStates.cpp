// What verify-sharded asks of a step of several micro-batches.

#include "Shard/GradientStates.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace fsdp;

/// Whether an op puts a state back to -0.0.
static bool isReset(StoreOp store) {
  auto fill = store.getValue().getDefiningOp<aten::CallOp>();
  auto value = fill && fill.getCallee() == "full_like"
                   ? dyn_cast_or_null<FloatAttr>(fill.getArg("fill_value"))
                   : FloatAttr();
  return value && value.getValue().isNegZero();
}

/// The ops of a program that name each gradient state, in order.
static llvm::DenseMap<StateOp, SmallVector<Operation *>>
findUses(func::FuncOp program, const SymbolTable &table) {
  llvm::DenseMap<StateOp, SmallVector<Operation *>> uses;
  auto note = [&](Operation *op, StringRef name) {
    auto state = table.lookup<StateOp>(name);
    if (state && state.getRole() == Role::Gradient)
      uses[state].push_back(op);
  };
  program.walk([&](Operation *op) {
    if (auto access = dyn_cast<StateAccessOpInterface>(op)) {
      llvm::SetVector<StringAttr> names;
      for (FlatSymbolRefAttr name : access.getReadStates())
        names.insert(name.getAttr());
      for (FlatSymbolRefAttr name : access.getWrittenStates())
        names.insert(name.getAttr());
      for (StringAttr name : names)
        note(op, name.getValue());
    }
  });
  return uses;
}

static LogicalResult verify(StateOp state, func::FuncOp program,
                            ArrayRef<Operation *> uses) {
  auto fail = [&](const Twine &what) {
    return state.emitOpError("S13: ")
           << what << " in @" << program.getSymName();
  };
  if (program.getSymName() == plan::accumulateProgramName)
    return uses.size() == 1 && isa<AccumulateOp>(uses[0])
               ? success()
               : LogicalResult(fail("is not added to once, and no more,"));
  if (program.getSymName() != plan::stepProgramName)
    return uses.empty() ? success() : LogicalResult(fail("is named"));
  bool isRead = uses.size() == 2 && isa<LoadOp>(uses[0]);
  auto store = isRead ? dyn_cast<StoreOp>(uses[1]) : StoreOp();
  return store && isReset(store)
             ? success()
             : LogicalResult(fail("is not loaded once and then put back to "
                                  "-0.0"));
}

/// What is summed over replicas in @accumulate would be summed again in @step.
static LogicalResult verifyNoReplicaSum(func::FuncOp program) {
  Mesh mesh(program);
  for (auto sum : program.getOps<CollectiveOpInterface>())
    if (sum.getRole() == CollectiveRole::Gradient &&
        mesh.isOver(sum, AxisRole::Replicate))
      return sum->emitOpError(
          "S13: is in @accumulate; only the last micro-batch "
          "sums over replicas");
  return success();
}

LogicalResult fsdp::verifyGradientStates(ModuleOp module) {
  SymbolTable table(module);
  for (func::FuncOp program : getPrograms(module)) {
    if (program.getSymName() == plan::accumulateProgramName &&
        failed(verifyNoReplicaSum(program)))
      return failure();
    auto uses = findUses(program, table);
    for (StateOp state : module.getOps<StateOp>())
      if (state.getRole() == Role::Gradient &&
          failed(verify(state, program, uses[state])))
        return failure();
  }
  return success();
}

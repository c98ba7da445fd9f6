// Parameters that are updated in a copy, where their optimizer states are.

#include "Lower/StagedUpdates.h"

using namespace mlir;
using namespace fsdp;

/// The parameter whose copy `value` is, for updates that change it; or null.
static FlatSymbolRefAttr getStagedParameter(Value value) {
  for (Operation *user : value.getUsers())
    if (auto update = dyn_cast<CmdUpdateOp>(user);
        update && update.getStaged() == value)
      return update.getParameterAttr();
  return {};
}

static FlatSymbolRefAttr getState(Value value) {
  auto declared = value.getDefiningOp<CmdValueOp>();
  return declared ? declared.getStateAttr() : FlatSymbolRefAttr();
}

/// The copy comes first, then updates, then the copy back; nothing else.
static LogicalResult verifyStaged(Value staged, FlatSymbolRefAttr parameter) {
  SmallVector<Operation *> users(staged.getUsers());
  llvm::sort(users,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
  enum { Nothing, Copied, Updated, Returned } state = Nothing;
  for (Operation *user : users) {
    bool fits = false;
    if (auto update = dyn_cast<CmdUpdateOp>(user)) {
      fits = (state == Copied || state == Updated) &&
             update.getStaged() == staged &&
             llvm::count(update->getOperands(), staged) == 1 &&
             update.getParameterAttr() == parameter;
      state = Updated;
    } else if (auto copy = dyn_cast<CmdCopyOp>(user);
               copy && copy.getPieces().size() == 1 &&
               copy.getSources().size() == 1) {
      bool back = copy.getSources()[0] == staged;
      Value other = back ? copy.getDestinations()[0] : copy.getSources()[0];
      fits =
          state == (back ? Updated : Nothing) && getState(other) == parameter;
      state = back ? Returned : Copied;
    }
    if (!fits)
      return user->emitOpError(
                 "C18: is not one of, in this order, the copy of ")
             << parameter << " that is updated, its updates and the copy back";
  }
  if (state != Returned)
    return users.back()->emitOpError("C18: the copy of ")
           << parameter << " that is updated is not copied back";
  return success();
}

LogicalResult fsdp::verifyStagedUpdates(func::FuncOp program,
                                        SymbolTableCollection &symbols) {
  for (auto value : program.getOps<CmdValueOp>())
    if (FlatSymbolRefAttr parameter = getStagedParameter(value);
        parameter && value.getPlace().getBytes() &&
        failed(verifyStaged(value, parameter)))
      return failure();
  for (auto copy : program.getOps<CmdCopyOp>())
    for (auto piece : copy.getPieces().getAsRange<PieceAttr>()) {
      FlatSymbolRefAttr name =
          getState(copy.getDestinations()[piece.getDestination()]);
      auto state = name ? symbols.lookupNearestSymbolFrom<StateOp>(copy, name)
                        : StateOp();
      if (!state || state.getRole() != Role::Parameter)
        continue;
      if (piece.getSource() < 0 ||
          getStagedParameter(copy.getSources()[piece.getSource()]) != name)
        return copy.emitOpError("C18: writes ")
               << name << ", but not what its updates have changed";
    }
  return success();
}

// Verifiers and state accesses of the commands phase.

#include "StateAccess.h"

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/Collectives.h"

using namespace mlir;
using namespace fsdp;

LogicalResult CmdCopyOp::verify() {
  int64_t sources = getSources().size(),
          destinations = getDestinations().size();
  if (getPieces().empty())
    return emitOpError("has no pieces");
  for (auto piece : getPieces().getAsRange<PieceAttr>())
    if (piece.getSource() >= sources || piece.getDestination() >= destinations)
      return emitOpError() << "has a piece from source " << piece.getSource()
                           << " to destination " << piece.getDestination()
                           << ", of " << sources << " and " << destinations;
  return success();
}

LogicalResult CmdValueOp::verifySymbolUses(SymbolTableCollection &tables) {
  FlatSymbolRefAttr name = getStateAttr();
  return success(!name || lookupState(*this, tables, name));
}

LogicalResult CmdUpdateOp::verifySymbolUses(SymbolTableCollection &tables) {
  return success(lookupRule(*this, tables, getRuleAttr()) &&
                 lookupState(*this, tables, getParameterAttr()) &&
                 succeeded(verifyStates(*this, tables)));
}

CollectiveRole CmdCollectiveOp::getRole() {
  return getInfo().reduces ? getReduced() : CollectiveRole::Parameter;
}

SmallVector<FlatSymbolRefAttr> CmdUpdateOp::getReadStates() {
  return getWrittenStates();
}
SmallVector<FlatSymbolRefAttr> CmdUpdateOp::getWrittenStates() {
  return getUpdatedStates(*this);
}

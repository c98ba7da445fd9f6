// Where the lowering notes streams and places.

#include "fsdp/Analysis/Places.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

PlaceAttr fsdp::getPlace(Value value) {
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    auto function =
        dyn_cast<FunctionOpInterface>(argument.getOwner()->getParentOp());
    return function
               ? kPlaceAttr.getOfArgument(function, argument.getArgNumber())
               : PlaceAttr();
  }
  if (auto declared = value.getDefiningOp<CmdValueOp>())
    return declared.getPlace();
  auto result = cast<OpResult>(value);
  auto places = kPlacesAttr.get(result.getOwner());
  if (!places || places.size() != result.getOwner()->getNumResults())
    return {};
  return dyn_cast<PlaceAttr>(places[result.getResultNumber()]);
}

PlaceAttr fsdp::getPlace(StateOp state) { return kPlaceAttr.get(state); }

ArrayRef<int64_t> fsdp::getArenaBytes(ModuleOp module) {
  auto bytes = kArenasAttr.get(module);
  return bytes && bytes.size() == kNumArenas ? bytes.asArrayRef()
                                             : ArrayRef<int64_t>();
}

StringRef fsdp::getModulePath(Location loc) {
  StringRef path;
  loc->walk([&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part)) {
      path = name.getName().getValue();
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return path;
}

std::string fsdp::getSourceLine(Location loc) {
  std::string line;
  loc->walk([&](Location part) {
    if (auto file = dyn_cast<FileLineColLoc>(part)) {
      line = llvm::formatv("{0}:{1}", file.getFilename().getValue(),
                           file.getLine());
      return WalkResult::interrupt();
    }
    return WalkResult::advance();
  });
  return line;
}

// fsdp-move-precision-casts.

#include "Remarks.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {
#define GEN_PASS_DEF_MOVEPRECISIONCASTS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// The type that all readers cast a gathered parameter to, or null.
Type getCastType(UnshardOp unshard) {
  Type type;
  for (Operation *reader : unshard->getUsers()) {
    if (!aten::isPrecisionCast(reader))
      return {};
    Type other = reader->getResult(0).getType();
    if (type && type != other)
      return {};
    type = other;
  }
  return type;
}

class MovePrecisionCasts
    : public fsdp::impl::MovePrecisionCastsBase<MovePrecisionCasts> {
  void runOnModule() override {
    for (func::FuncOp program : getPrograms(getOperation())) {
      llvm::MapVector<StringRef, int> moved; // by unit
      SmallVector<UnshardOp> unshards;
      program.walk([&](UnshardOp unshard) { unshards.push_back(unshard); });
      for (UnshardOp unshard : unshards)
        if (Type type = getCastType(unshard)) {
          move(unshard, cast<RankedTensorType>(type));
          ++moved[unshard.getUnit()];
        }
      for (auto &[unit, count] : moved)
        remarkPassed(R::CastParameters, program.getLoc(), program.getSymName())
            << "gathers of cast parameters" << metrics::Unit(unit)
            << metrics::Gathers(count);
    }
  }

  void move(UnshardOp unshard, RankedTensorType type) {
    OpBuilder builder(unshard);
    Value part = aten::createPrecisionCast(
        builder, unshard.getLoc(), getDirection(unshard.getRegion()),
        unshard.getInput(), type.getElementType());
    SmallVector<Operation *> casts(unshard->getUsers());
    unshard.getInputMutable().assign(part);
    unshard.getResult().setType(type);
    for (Operation *cast : casts) {
      cast->getResult(0).replaceAllUsesWith(unshard);
      cast->erase();
    }
  }
};

} // namespace

// fsdp-insert-grad-reduction.

#include "GradientMean.h"
#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/Aten/PrecisionCast.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {
#define GEN_PASS_DEF_INSERTGRADREDUCTION
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class InsertGradReduction
    : public fsdp::impl::InsertGradReductionBase<InsertGradReduction> {
public:
  using InsertGradReductionBase::InsertGradReductionBase;

private:
  void runOnModule() override;
  Type getReduceType(StateOp parameter, Type gradientType);
  Value copyToRowMajor(OpBuilder &builder, Value gradient);
  void reduce(UpdateOp update, StateOp parameter, const GradientMeans &means);

  llvm::StringMap<UnitOp> units;
  bool severalRanks = false;
  Type defaultType; // null: what gradients are computed in
};

/// What the unit says itself wins over the option.
Type InsertGradReduction::getReduceType(StateOp parameter, Type gradientType) {
  UnitOp unit = units.lookup(*parameter.getUnit());
  if (unit && unit.getReduceDtype())
    return *unit.getReduceDtype();
  return defaultType ? defaultType : gradientType;
}

/// The gradient itself where ranks can exchange it as it lies.
Value InsertGradReduction::copyToRowMajor(OpBuilder &builder, Value gradient) {
  Value copy = createRowMajor(builder, gradient);
  Location loc = gradient.getLoc();
  if (copy != gradient)
    remarkMissed(R::CopiedGradient, loc)
        << "a copy row by row, as the ranks exchange a gradient"
        << metrics::Module(getModulePath(loc))
        << metrics::Line(getSourceLine(loc))
        << metrics::Of(getOperator(gradient))
        << metrics::Bytes(
               getTensorBytes(cast<RankedTensorType>(copy.getType())));
  return copy;
}

void InsertGradReduction::reduce(UpdateOp update, StateOp parameter,
                                 const GradientMeans &means) {
  // What backward gives, in the dtype that it computes in.
  Value gradient = aten::lookThroughPrecisionCast(update.getGradient());
  Type own = parameter.getTensorType().getElementType();
  Type computed = cast<RankedTensorType>(gradient.getType()).getElementType();
  Type reduced = getReduceType(parameter, computed);
  // A scalar is whole on each rank, and its gradient averaged all the same.
  bool averaged = severalRanks || parameter.getSharding();
  auto [before, after] = means.get(parameter.getUnitAttr(), reduced);
  // One rank has nothing to add up, but rounds and divides as several would.
  if (!averaged && before * after == 1 &&
      (reduced == computed || reduced == own))
    return;

  OpBuilder builder(update);
  if (Operation *source = gradient.getDefiningOp())
    builder.setInsertionPointAfter(source);
  Location loc = gradient.getLoc();
  if (reduced != computed)
    gradient = aten::createPrecisionCast(
        builder, loc, aten::Direction::Backward, gradient, reduced);
  else if (averaged)
    gradient = copyToRowMajor(builder, gradient);
  if (averaged)
    gradient = ReduceGradOp::create(builder, loc, gradient.getType(), gradient,
                                    *parameter.getUnit());
  else
    for (double divisor : {before, after})
      gradient = createDivision(builder, loc, gradient, divisor);
  if (reduced != own)
    gradient = aten::createPrecisionCast(
        builder, loc, aten::Direction::Backward, gradient, own);
  update.getGradientMutable().assign(gradient);

  std::string dtype;
  llvm::raw_string_ostream(dtype) << reduced;
  remarkPassed(R::ReducedGradient, update.getLoc())
      << (averaged ? "averaged over the ranks" : "one rank's own")
      << metrics::State(parameter.getSymName()) << metrics::Dtype(dtype);
}

void InsertGradReduction::runOnModule() {
  ModuleOp module = getOperation();
  std::optional<plan::DType> dtype;
  if (failed(
          readOptions(module, [&] { dtype = readReduceDtype(reduceDtype); })))
    return signalPassFailure();
  defaultType = dtype ? aten::getElementType(&getContext(), *dtype) : Type();
  units = getUnits(module);
  severalRanks = Mesh(module).getNumRanks() > 1;
  GradientMeans means(module);
  SymbolTable table(module);
  for (func::FuncOp program : getPrograms(module)) {
    WalkResult result = program.walk([&](UpdateOp update) {
      auto parameter = table.lookup<StateOp>(update.getParameter());
      if (!parameter || !parameter.getUnit())
        return WalkResult::advance();
      if (getReduction(update)) {
        update.emitOpError("has a gradient that is reduced already; run "
                           "fsdp-insert-grad-reduction once");
        return WalkResult::interrupt();
      }
      reduce(update, parameter, means);
      return WalkResult::advance();
    });
    if (result.wasInterrupted())
      return signalPassFailure();
    // Casts of gradients that updates read before.
    eraseDeadOps(program);
  }
}

} // namespace

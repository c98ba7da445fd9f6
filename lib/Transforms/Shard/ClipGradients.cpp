// fsdp-clip-gradients.

#include "Remarks.h"
#include "Shard/GradientNorms.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/raw_ostream.h"

#include <cmath>

namespace fsdp {
#define GEN_PASS_DEF_CLIPGRADIENTS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// PyTorch's clip_grad_norm_ adds it to the norm.
constexpr double kEpsilon = 1e-6;

class ClipGradients : public fsdp::impl::ClipGradientsBase<ClipGradients> {
  void runOnModule() override;
  LogicalResult clipByNorm(func::FuncOp program, ArrayRef<UpdateOp> updates,
                           double most, double p);
};

LogicalResult ClipGradients::clipByNorm(func::FuncOp program,
                                        ArrayRef<UpdateOp> updates, double most,
                                        double p) {
  FailureOr<Gradients> gradients = Gradients::collect(updates);
  if (failed(gradients))
    return failure();
  Operation *end = program.getBody().front().getTerminator();
  OpBuilder builder(end);
  Location loc = NameLoc::get(builder.getStringAttr("clip_grad_norm"));
  ScalarCalls scalars(builder, loc);
  Value norm = gradients->sumPowers(builder, loc, p, CollectiveRole::Norm);
  if (p == 2)
    norm = scalars.call("sqrt", norm);
  else if (p != 1 && !std::isinf(p))
    norm = scalars.call("pow.Tensor_Scalar", norm, "exponent", 1 / p);
  // From here on with the precision of the gradients, as PyTorch.
  if (!gradients->areDouble())
    norm = scalars.cast(norm, builder.getF32Type());
  // They may be to be scaled already, by a power of the loss's scale.
  UpdateOp first = updates.front();
  Value before = first.getScale();
  if (before)
    norm = scalars.call("mul.Tensor", {norm, before});
  // An infinite bound asks for the norm alone.
  if (!std::isinf(most)) {
    // min(most / (norm + 1e-6), 1): PyTorch divides by its reciprocal.
    Value factor = scalars.call("add.Scalar", norm, "other", kEpsilon);
    factor = scalars.call("reciprocal", factor);
    factor = scalars.call("mul.Scalar", factor, "other", most);
    factor = scalars.call("clamp", factor, "max", 1.0);
    if (before)
      factor = scalars.call("mul.Tensor", {factor, before});
    for (UpdateOp update : updates) {
      update->moveBefore(end);
      update.getScaleMutable().assign(factor);
    }
  }

  if (failed(addOutput(program, "grad_norm", norm)))
    return failure();
  remarkPassed(R::ClippedNorm, program.getLoc(), program.getSymName())
      << "they follow the norm of their gradients"
      << metrics::Updates(updates.size()) << metrics::Order(p);
  return success();
}

void ClipGradients::runOnModule() {
  ModuleOp module = getOperation();
  auto training = TrainingOp::of(module);
  if (!training)
    return;
  DenseF64ArrayAttr norm = training.getClipGradNormAttr();
  if (!norm)
    return;
  bool clipped = false;
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<UpdateOp> updates = getUpdates(program);
    clipped |= !updates.empty();
    if (!updates.empty() &&
        failed(clipByNorm(program, updates, norm[0], norm[1])))
      return signalPassFailure();
  }
  if (!clipped) {
    training.emitOpError("clips gradients, but no program updates a parameter");
    signalPassFailure();
  }
}

} // namespace

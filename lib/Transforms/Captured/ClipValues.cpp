// fsdp-clip-values.

#include "Remarks.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

namespace fsdp {
#define GEN_PASS_DEF_CLIPVALUES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

static void clamp(func::FuncOp rule, double most) {
  OpBuilder builder = OpBuilder::atBlockBegin(&rule.getBody().front());
  Value gradient = rule.getArgument(1);
  NamedAttribute args[] = {
      builder.getNamedAttr("min", builder.getF64FloatAttr(-most)),
      builder.getNamedAttr("max", builder.getF64FloatAttr(most))};
  auto clamp = aten::CallOp::create(builder, rule.getLoc(),
                                    aten::Direction::Forward, "clamp", gradient,
                                    args, TypeRange(gradient.getType()));
  gradient.replaceAllUsesExcept(clamp->getResult(0), clamp);
  remarkPassed(R::ClippedValues, rule.getLoc())
      << "it clamps its gradient" << metrics::Rule(rule.getSymName());
}

namespace {
struct ClipValues : fsdp::impl::ClipValuesBase<ClipValues> {
  void runOnModule() override {
    ModuleOp module = getOperation();
    auto training = TrainingOp::of(module);
    if (!training || !training.getClipGradValueAttr())
      return;
    bool updates = llvm::any_of(getPrograms(module), [](func::FuncOp program) {
      return !program.getOps<UpdateOp>().empty();
    });
    if (!updates) {
      training.emitOpError(
          "clips gradients, but no program updates a parameter");
      return signalPassFailure();
    }
    double most = training.getClipGradValueAttr().getValueAsDouble();
    for (auto function : module.getOps<func::FuncOp>())
      if (isRule(function))
        clamp(function, most);
  }
};
} // namespace

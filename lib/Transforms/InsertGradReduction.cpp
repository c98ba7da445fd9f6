// fsdp-insert-grad-reduction.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

namespace fsdp {
#define GEN_PASS_DEF_INSERTGRADREDUCTION
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class InsertGradReduction
    : public fsdp::impl::InsertGradReductionBase<InsertGradReduction> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    SymbolTable table(module);
    for (func::FuncOp program : getPrograms(module))
      program.walk([&](UpdateOp update) {
        auto parameter = table.lookup<StateOp>(update.getParameter());
        if (parameter && parameter.getSharding())
          reduce(update, parameter);
      });
  }

  void reduce(UpdateOp update, StateOp parameter) {
    OpBuilder builder(update);
    Value gradient = update.getGradient();
    if (Operation *source = gradient.getDefiningOp())
      builder.setInsertionPointAfter(source);
    gradient = createRowMajor(builder, gradient);
    auto reduced =
        ReduceGradOp::create(builder, gradient.getLoc(), gradient.getType(),
                             gradient, *parameter.getUnit());
    update.getGradientMutable().assign(reduced);
    remark::passed(update.getLoc(), remark::RemarkOpts::name("reduce").category(
                                        "fsdp-insert-grad-reduction"))
        << "the gradient of \"" + parameter.getSymName().str() +
               "\" is averaged over the ranks";
  }
};

} // namespace

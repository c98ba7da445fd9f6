// fsdp-choose-kernels.

#include "CrossEntropy.h"
#include "PassOptions.h"
#include "Remarks.h"

#include "cost/KernelTable.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/Support/FormatVariadic.h"

namespace fsdp {
#define GEN_PASS_DEF_CHOOSEKERNELS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

constexpr int64_t kManyClasses = 512;

class ChooseKernels : public fsdp::impl::ChooseKernelsBase<ChooseKernels> {
public:
  using ChooseKernelsBase::ChooseKernelsBase;

  void runOnModule() override;

private:
  LogicalResult readOptions();
  void choose(func::FuncOp program);
  cost::KernelTable measured;
};

/// A number, a truth, or a list of them that a call is given; nothing where it
/// is none.
cost::Numbers getNumbers(Attribute attribute) {
  using List = std::vector<double>;
  if (auto number = dyn_cast<FloatAttr>(attribute))
    return List{number.getValueAsDouble()};
  if (auto truth = dyn_cast<BoolAttr>(attribute))
    return List{double(truth.getValue())};
  if (auto number = dyn_cast<IntegerAttr>(attribute))
    return List{double(number.getInt())};
  if (auto numbers = dyn_cast<DenseI64ArrayAttr>(attribute))
    return List(numbers.asArrayRef().begin(), numbers.asArrayRef().end());
  if (auto truths = dyn_cast<DenseBoolArrayAttr>(attribute))
    return List(truths.asArrayRef().begin(), truths.asArrayRef().end());
  return std::nullopt;
}

/// The product that a call computes; nothing where ATen's kernel alone takes
/// it.
std::optional<cost::Product> getProduct(aten::CallOp call) {
  cost::ProductArguments arguments;
  for (const aten::CallArgument &argument : call.getCallArguments()) {
    using Kind = aten::CallArgument::Kind;
    if (argument.kind == Kind::Default || argument.kind == Kind::None) {
      arguments.add(std::nullopt);
    } else if (argument.kind == Kind::Attribute) {
      cost::Numbers numbers = getNumbers(argument.attribute);
      if (!numbers)
        return std::nullopt;
      arguments.add(std::move(numbers));
    } else if (argument.kind == Kind::Value) {
      auto type = dyn_cast<RankedTensorType>(
          call->getOperand(argument.operands.front()).getType());
      std::optional<plan::DType> dtype =
          type ? aten::getDType(type.getElementType()) : std::nullopt;
      if (!dtype)
        return std::nullopt;
      SmallVector<int64_t> strides = aten::getStrides(type);
      arguments.add(
          {*dtype, type.getShape().vec(), {strides.begin(), strides.end()}});
    } else {
      return std::nullopt;
    }
  }
  return arguments.productOf(call.getCallee().str());
}

LogicalResult ChooseKernels::readOptions() {
  ModuleOp module = getOperation();
  auto device =
      isForGpus(module) ? plan::DeviceKind::Cuda : plan::DeviceKind::Cpu;
  return fsdp::readOptions(module, [&] {
    std::optional<cost::KernelTable> table =
        readKernelTable(kernels, kernelTable, cluster, device);
    if (!table && kernels == KernelChoice::Fast)
      throw Error(E::OptionsDisagree,
                  "kernels=fast chooses by measurement; give "
                  "kernel-table=FILE, which `fsdp-run PLAN --tune FILE` writes "
                  "for a plan with kernels=exact");
    measured = table.value_or(cost::KernelTable());
  });
}

void ChooseKernels::choose(func::FuncOp program) {
  double before = 0, after = 0; // seconds
  int64_t chosen = 0, all = 0;
  program.walk([&](aten::CallOp call) {
    std::optional<cost::Product> product = getProduct(call);
    if (!product)
      return;
    ++all;
    const cost::Kernel *best = measured.fastest(*product);
    if (!best) {
      remarkMissed(R::ChosenKernel, call.getLoc(), program.getSymName())
          << "stays ATen's: the table lacks its time"
          << metrics::Product(product->text());
      return;
    }
    double aten =
        measured.seconds(*product, *cost::kernelsOf(product->family).front());
    double seconds = measured.seconds(*product, *best);
    before += aten;
    after += seconds;
    chosen += !best->exact;
    call.setKernel(StringRef(best->callee.data(), best->callee.size()),
                   seconds);
    remarkPassed(R::ChosenKernel, call.getLoc(), program.getSymName())
        << std::string(best->name) << metrics::Product(product->text())
        << metrics::Us(seconds) << metrics::AtenUs(aten);
  });
  remarkPassed(R::ChosenKernels, program.getLoc(), program.getSymName())
      << "products by other kernels than ATen's" << metrics::Chosen(chosen)
      << metrics::Products(all) << metrics::Us(after)
      << metrics::AtenUs(before);
}

void ChooseKernels::runOnModule() {
  if (failed(readOptions()))
    return signalPassFailure();
  if (kernels == KernelChoice::Exact)
    return markAllAnalysesPreserved();
  for (func::FuncOp program : getPrograms(getOperation())) {
    // Not measured: it is the same work in fewer passes over memory. Of a few
    // classes there is nothing to win for which bits should change.
    CrossEntropy::fuseAll(program, R::ChosenCrossEntropy, kManyClasses);
    choose(program);
  }
}

} // namespace

// fsdp-select-kernels.

#include "AttentionKernels.h"

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/StringExtras.h"

namespace fsdp {
#define GEN_PASS_DEF_SELECTKERNELS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// Normalisations by their results of statistics, which backward reads: of the
/// input's type on a CPU, and on a GPU of f32 where that is f16 or bf16.
struct Normalization {
  StringRef callee;
  unsigned mean, deviation;
};
constexpr Normalization kNormalizations[] = {
    {"native_layer_norm", 1, 2},
    {"native_batch_norm", 1, 2},
    {"_native_batch_norm_legit", 1, 2},
    {"_native_batch_norm_legit.no_stats", 1, 2},
    {"_native_batch_norm_legit_functional", 1, 2},
};

/// Gives a value elements of f32, and what looks into it.
void widen(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type ||
      !(type.getElementType().isF16() || type.getElementType().isBF16()))
    return;
  value.setType(type.clone(Float32Type::get(value.getContext())));
  for (Operation *reader : value.getUsers())
    if (auto view = dyn_cast<aten::CallOp>(reader); view && view.isView())
      for (Value result : view->getResults())
        widen(result);
}

void widenStatistics(aten::CallOp call) {
  for (const Normalization &known : kNormalizations)
    if (known.callee == call.getCallee())
      for (unsigned result : {known.mean, known.deviation})
        widen(call->getResult(result));
}

class SelectKernels : public fsdp::impl::SelectKernelsBase<SelectKernels> {
public:
  using SelectKernelsBase::SelectKernelsBase;

  void runOnOperation() override;

private:
  LogicalResult readKernels();
  LogicalResult select(Attention attention, func::FuncOp program);

  SmallVector<const AttentionKernel *> kernels; // best first
};

LogicalResult SelectKernels::readKernels() {
  SmallVector<StringRef> names;
  StringRef(attention).split(names, ',');
  for (StringRef name : names) {
    auto known = llvm::find_if(
        getAttentionKernels(),
        [&](const AttentionKernel &kernel) { return kernel.name == name; });
    if (known == getAttentionKernels().end())
      return getOperation().emitError()
             << "attention=" << attention << " does not exist; it is a list of "
             << "flash, efficient and cudnn, best first";
    kernels.push_back(known);
  }
  return success();
}

LogicalResult SelectKernels::select(Attention attention, func::FuncOp program) {
  SmallVector<std::string> misfits;
  Location where = attention.forward.getLoc();
  for (const AttentionKernel *kernel : kernels) {
    std::string why = kernel->misfit(attention);
    if (!why.empty()) {
      misfits.push_back((kernel->name + " " + why).str());
      continue;
    }
    kernel->replace(attention);
    std::string chosen = kernel->name.str();
    for (const std::string &other : misfits)
      chosen += "; " + other;
    remark::passed(where, remark::RemarkOpts::name("attention")
                              .category("fsdp-select-kernels")
                              .function(program.getSymName()))
        << chosen;
    return success();
  }
  return attention.forward.emitOpError("has no kernel on GPUs: ")
         << llvm::join(misfits, "; ")
         << "; run the model under torch.nn.attention.sdpa_kernel("
            "SDPBackend.MATH), which captures matrix products";
}

void SelectKernels::runOnOperation() {
  ModuleOp module = getOperation();
  if (device != "cpu" && device != "cuda") {
    module.emitError() << "device=" << device
                       << " does not exist; there are cpu and cuda";
    return signalPassFailure();
  }
  if (failed(readKernels()))
    return signalPassFailure();
  if (device == "cpu")
    return; // as it was captured
  module->setAttr(kDeviceAttrName, Builder(module).getStringAttr(device));
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<Attention> attentions;
    program.walk([&](aten::CallOp call) {
      widenStatistics(call);
      if (std::optional<Attention> attention = Attention::match(call))
        attentions.push_back(*attention);
    });
    for (const Attention &attention : attentions)
      if (failed(select(attention, program)))
        return signalPassFailure();
  }
}

} // namespace

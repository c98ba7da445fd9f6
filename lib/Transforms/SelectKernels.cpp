// fsdp-select-kernels.

#include "AttentionKernels.h"
#include "DeviceResults.h"
#include "FusedRules.h"

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

class SelectKernels : public fsdp::impl::SelectKernelsBase<SelectKernels> {
public:
  using SelectKernelsBase::SelectKernelsBase;

  void runOnOperation() override;

private:
  LogicalResult readKernels();
  LogicalResult select(Attention attention, func::FuncOp program);
  void fuse(func::FuncOp rule);

  SmallVector<const AttentionKernel *> kernels; // best first
};

LogicalResult SelectKernels::readKernels() {
  kernels.clear();
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

void SelectKernels::fuse(func::FuncOp rule) {
  StringRef chosen = fuseRule(rule);
  auto options = remark::RemarkOpts::name("optimizer")
                     .category("fsdp-select-kernels")
                     .function(rule.getSymName());
  if (chosen.empty())
    remark::missed(rule.getLoc(), options)
        << "stays as it was captured: it is fused already, or not "
           "torch.optim's "
           "Adam, AdamW or SGD without dampening";
  else
    remark::passed(rule.getLoc(), options) << chosen.str();
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
      retypeForGpu(call);
      if (std::optional<Attention> attention = Attention::match(call))
        attentions.push_back(*attention);
    });
    for (const Attention &attention : attentions)
      if (failed(select(attention, program)))
        return signalPassFailure();
  }
  for (auto function : module.getOps<func::FuncOp>())
    if (function->hasAttr("fsdp.rule"))
      fuse(function);
}

} // namespace

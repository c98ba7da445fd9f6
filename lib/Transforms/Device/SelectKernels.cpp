// fsdp-select-kernels.

#include "CrossEntropy.h"
#include "Device/AttentionKernels.h"
#include "Device/DeviceResults.h"
#include "Device/FusedRules.h"
#include "Device/MaskedFill.h"
#include "Device/MathAttention.h"
#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

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

  void runOnModule() override;

private:
  LogicalResult readKernels();
  /// The first kernel that computes an attention, or null; and why others do
  /// not.
  const AttentionKernel *choose(const Attention &attention, std::string &why);
  LogicalResult select(Attention attention, func::FuncOp program);
  void raise(aten::CallOp softmax, func::FuncOp program);
  void fuse(func::FuncOp rule);

  SmallVector<const AttentionKernel *> kernels; // best first
};

LogicalResult SelectKernels::readKernels() {
  SmallVector<StringRef> names;
  if (failed(readOptions(getOperation(),
                         [&] { names = readAttention(attention); })))
    return failure();
  kernels.clear();
  for (StringRef name : names)
    kernels.push_back(llvm::find_if(
        getAttentionKernels(),
        [&](const AttentionKernel &kernel) { return kernel.name == name; }));
  return success();
}

const AttentionKernel *SelectKernels::choose(const Attention &attention,
                                             std::string &why) {
  SmallVector<std::string> misfits;
  const AttentionKernel *chosen = nullptr;
  for (const AttentionKernel *kernel : kernels) {
    std::string misfit = kernel->misfit(attention);
    if (misfit.empty()) {
      chosen = kernel;
      break;
    }
    misfits.push_back((kernel->name + " " + misfit).str());
  }
  why = llvm::join(misfits, "; ");
  return chosen;
}

LogicalResult SelectKernels::select(Attention attention, func::FuncOp program) {
  std::string why;
  Location where = attention.forward.getLoc();
  const AttentionKernel *kernel = choose(attention, why);
  if (!kernel)
    return attention.forward.emitOpError("has no kernel on GPUs: ")
           << why
           << "; run the model under torch.nn.attention.sdpa_kernel("
              "SDPBackend.MATH), which captures matrix products";
  kernel->replace(attention);
  remarkPassed(R::SelectedAttention, where, program.getSymName())
      << (why.empty() ? kernel->name.str() : kernel->name.str() + "; " + why);
  return success();
}

/// Matrix products run on every device, so that they may stay.
void SelectKernels::raise(aten::CallOp softmax, func::FuncOp program) {
  std::string why = "they are not those of scaled_dot_product_attention";
  std::optional<MathAttention> math = MathAttention::match(softmax);
  const AttentionKernel *kernel =
      math ? choose(math->getAttention(), why) : nullptr;
  if (!kernel) {
    remarkMissed(R::SelectedAttention, softmax.getLoc(), program.getSymName())
        << "stays matrix products: " + why;
    return;
  }
  Location where = softmax.getLoc();
  Attention attention = math->raise();
  kernel->replace(attention);
  remarkPassed(R::SelectedAttention, where, program.getSymName())
      << kernel->name.str() + " in place of matrix products";
}

/// What was drawn for products that are no more is not drawn.
static void eraseUndrawn(func::FuncOp program) {
  eraseDeadOps(program);
  for (auto call : llvm::make_early_inc_range(
           program.getBody().front().getOps<aten::CallOp>()))
    if (call.getCallee() == "bernoulli.p" && call->use_empty())
      call.erase();
  eraseDeadOps(program);
}

void SelectKernels::fuse(func::FuncOp rule) {
  StringRef chosen = fuseRule(rule);
  remarkDecision(!chosen.empty(), R::SelectedOptimizer, rule.getLoc(),
                 rule.getSymName())
      << (chosen.empty() ? "stays as it was captured: it is not torch.optim's "
                           "Adam, AdamW or SGD without dampening, or sets its "
                           "parameters first"
                         : chosen);
}

void SelectKernels::runOnModule() {
  ModuleOp module = getOperation();
  if (failed(readKernels()))
    return signalPassFailure();
  StringRef chosen = device.getValue().getName();
  auto training = TrainingOp::of(module);
  if (auto own = training ? training.getMeshDevice() : std::nullopt;
      own && *own != chosen) {
    training.emitOpError("asks for ranks on ")
        << *own << ", but device=" << chosen << "; give device=" << *own
        << ", or describe a mesh of " << chosen;
    return signalPassFailure();
  }
  if (device == TargetDevice::Cpu)
    return; // as it was captured
  kDeviceAttr.set(module, chosen);
  for (func::FuncOp program : getPrograms(module)) {
    SmallVector<Attention> attentions;
    SmallVector<aten::CallOp> products;
    program.walk([&](aten::CallOp call) {
      retypeForGpu(call);
      if (MathAttention::isSoftmax(call))
        products.push_back(call);
      if (std::optional<Attention> attention = Attention::match(call))
        attentions.push_back(*attention);
    });
    for (aten::CallOp softmax : products)
      raise(softmax, program);
    if (!products.empty())
      eraseUndrawn(program);
    for (const Attention &attention : attentions)
      if (failed(select(attention, program)))
        return signalPassFailure();
    CrossEntropy::fuseAll(program, R::SelectedCrossEntropy);
    program.walk(fillWithoutWaiting);
  }
  for (auto function : module.getOps<func::FuncOp>())
    if (isRule(function))
      fuse(function);
}

} // namespace

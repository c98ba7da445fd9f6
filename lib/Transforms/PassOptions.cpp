// Options of passes that are more than a word.

#include "PassOptions.h"

#include "cost/CommandCost.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::readMebibytes(ModuleOp module, StringRef name,
                                  StringRef text,
                                  std::optional<int64_t> &bytes) {
  bytes = std::nullopt;
  if (text.empty())
    return success();
  double mebibytes;
  if (text.getAsDouble(mebibytes) || !(mebibytes >= 0) || mebibytes > 1e12)
    return ofKind(E::Option, module.emitError())
           << name << "=" << text << " is no number of MiB, as in 25 or 0.5";
  if (mebibytes > 0)
    bytes = static_cast<int64_t>(mebibytes * (1 << 20));
  return success();
}

LogicalResult fsdp::readMemoryBudget(ModuleOp module, StringRef text,
                                     std::optional<int64_t> &bytes) {
  if (failed(readMebibytes(module, "memory-budget-mib", text, bytes)))
    return failure();
  if (bytes || text.empty())
    return success();
  return ofKind(E::Option, module.emitError())
         << "memory-budget-mib=" << text
         << " leaves room for nothing; give the MiB that a rank may use, or "
            "leave the option out for any amount";
}

LogicalResult fsdp::readFloatType(ModuleOp module, StringRef name,
                                  StringRef text, Type &type) {
  const plan::DTypeInfo *info = plan::findDType(text);
  bool fits = info && info->kind == plan::DTypeClass::Float;
  type = fits ? aten::getElementType(module.getContext(), info->dtype) : Type();
  if (fits || text.empty())
    return success();
  return ofKind(E::Option, module.emitError())
         << name << "=" << text << " does not exist; there are "
         << llvm::join(plan::floatingNames(), ", ");
}

LogicalResult fsdp::readCluster(ModuleOp module, StringRef name,
                                cost::Cluster &cluster) {
  if (name == "auto")
    name = cost::defaultCluster(isForGpus(module) ? plan::DeviceKind::Cuda
                                                  : plan::DeviceKind::Cpu);
  try {
    cluster = cost::findCluster(name.str());
    return success();
  } catch (const cost::ClusterError &error) {
    return ofKind(error.kind, module.emitError(error.what()));
  }
}

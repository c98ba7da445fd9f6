// Options of passes that are more than a word.

#include "PassOptions.h"

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

LogicalResult fsdp::readMebibytes(ModuleOp module, StringRef name,
                                  StringRef text,
                                  std::optional<int64_t> &bytes) {
  bytes = std::nullopt;
  if (text.empty())
    return success();
  double mebibytes;
  if (text.getAsDouble(mebibytes) || !(mebibytes >= 0) || mebibytes > 1e12)
    return module.emitError()
           << name << "=" << text << " is no number of MiB, as in 25 or 0.5";
  if (mebibytes > 0)
    bytes = static_cast<int64_t>(mebibytes * (1 << 20));
  return success();
}

LogicalResult fsdp::readFloatType(ModuleOp module, StringRef name,
                                  StringRef text, Type &type) {
  MLIRContext *context = module.getContext();
  type = llvm::StringSwitch<Type>(text)
             .Case("float16", Float16Type::get(context))
             .Case("bfloat16", BFloat16Type::get(context))
             .Case("float32", Float32Type::get(context))
             .Case("float64", Float64Type::get(context))
             .Default(Type());
  if (!type && !text.empty())
    return module.emitError()
           << name << "=" << text
           << " does not exist; there are float16, bfloat16, float32 and "
              "float64";
  return success();
}

LogicalResult fsdp::readCluster(ModuleOp module, StringRef name,
                                cost::Cluster &cluster) {
  if (name == "auto")
    name = module->hasAttr(kDeviceAttrName) ? "h100x8" : "local";
  try {
    cluster = cost::findCluster(name.str());
    return success();
  } catch (const cost::ClusterError &error) {
    return module.emitError(error.what());
  }
}

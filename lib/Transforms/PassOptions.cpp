// Options of passes that are more than a word.

#include "PassOptions.h"

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

LogicalResult fsdp::readCluster(ModuleOp module, StringRef name,
                                cost::Cluster &cluster) {
  try {
    cluster = cost::findCluster(name.str());
    return success();
  } catch (const cost::ClusterError &error) {
    return module.emitError(error.what());
  }
}

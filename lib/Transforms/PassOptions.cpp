// Options of passes that are more than a word.

#include "PassOptions.h"

#include "cost/CommandCost.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Regex.h"

using namespace mlir;
using namespace fsdp;

LogicalResult fsdp::readOptions(ModuleOp module, function_ref<void()> read) {
  try {
    read();
    return success();
  } catch (const Error &error) {
    return ofKind(error.kind, module.emitError(error.what()));
  }
}

/// An error of `name=text`.
static Error wrongValue(StringRef name, StringRef text, const Twine &why,
                        E kind = E::Option) {
  // Of a text with commas between options.
  StringRef hint = text.contains('=') ? "; a space separates options" : "";
  return Error(kind, (name + "=" + text + why + hint).str());
}

SmallVector<int64_t> fsdp::readMesh(StringRef text) {
  SmallVector<StringRef> words;
  text.split(words, 'x');
  constexpr int64_t most = 65536;
  SmallVector<int64_t> sizes;
  int64_t ranks = 1;
  for (StringRef word : words) {
    int64_t &size = sizes.emplace_back();
    if (word.getAsInteger(10, size) || size < 1 || size > most ||
        (ranks *= size) > most)
      throw wrongValue("mesh", text,
                       " is not a number of ranks from 1 to " + Twine(most) +
                           ", as 8, nor replicas times shards, as 2x4 or 2x2x4",
                       E::MeshOption);
  }
  return sizes;
}

SmallVector<std::string> fsdp::getDefaultMeshNames(size_t count) {
  SmallVector<std::string> names;
  for (size_t i = 0; i + 1 < count; ++i)
    names.push_back("replicate" + (count > 2 ? std::to_string(i) : ""));
  names.push_back("shard");
  return names;
}

void fsdp::checkMeshNames(ArrayRef<std::string> names, StringRef mesh) {
  size_t count = readMesh(mesh).size();
  llvm::StringSet<> unique;
  unique.insert_range(names);
  if (names.size() != count || unique.size() != count || unique.contains(""))
    throw wrongValue("mesh-dims", llvm::join(names, ","),
                     " does not name the " + Twine(count) +
                         (count == 1 ? " dimension" : " dimensions") +
                         " of mesh=" + mesh +
                         "; the last is the one that is sharded over, as in "
                         "mesh-dims=" +
                         llvm::join(getDefaultMeshNames(count), ","),
                     E::MeshOption);
}

std::optional<uint64_t> fsdp::readUnits(StringRef text) {
  if (text.empty())
    throw wrongValue("units", text,
                     " has no value; give auto (blocks), class:NAME, a number "
                     "of bytes or a regular expression over module paths");
  uint64_t bytes;
  if (!text.getAsInteger(10, bytes)) {
    if (bytes == 0)
      throw wrongValue("units", text, ": a unit has at least one byte");
    return bytes;
  }
  std::string why;
  if (!text.starts_with("class:") && !llvm::Regex(text).isValid(why))
    throw wrongValue("units", text, " is not a regular expression: " + why);
  return std::nullopt;
}

std::optional<int64_t> fsdp::readReshardRanks(StringRef text) {
  if (text == "auto" || text == "true" || text == "false")
    return std::nullopt;
  int64_t ranks;
  if (text.getAsInteger(10, ranks) || ranks < 1)
    throw wrongValue("reshard-after-forward", text,
                     " does not exist; there are auto, true, false and a "
                     "number of ranks");
  return ranks;
}

std::optional<size_t> fsdp::readPrefetchDepth(StringRef name, StringRef text) {
  if (text == "auto")
    return std::nullopt;
  size_t units;
  if (text.getAsInteger(10, units))
    throw wrongValue(name, text, " is neither auto nor a number of units");
  return units;
}

/// Bytes of a number of MiB, "1.5"; none where it is 0.
static std::optional<int64_t> readMebibytes(StringRef name, StringRef text) {
  double mebibytes;
  if (text.getAsDouble(mebibytes) || !(mebibytes >= 0) || mebibytes > 1e12)
    throw wrongValue(name, text, " is no number of MiB, as in 25 or 0.5");
  if (mebibytes == 0)
    return std::nullopt;
  return static_cast<int64_t>(mebibytes * (1 << 20));
}

std::optional<int64_t> fsdp::readBucketCap(StringRef text) {
  if (text == "auto" || text == "none")
    return std::nullopt;
  return readMebibytes("bucket-cap-mib", text);
}

std::optional<int64_t> fsdp::readMemoryBudget(StringRef text) {
  if (text.empty())
    return std::nullopt;
  std::optional<int64_t> bytes = readMebibytes("memory-budget-mib", text);
  if (!bytes)
    throw wrongValue("memory-budget-mib", text,
                     " leaves room for nothing; give the MiB that a rank may "
                     "use, or leave the option out for any amount");
  return bytes;
}

void fsdp::checkRemat(RematPolicy remat, StringRef memoryBudgetMib) {
  if (remat == RematPolicy::Auto && memoryBudgetMib.empty())
    throw Error(E::OptionsDisagree,
                "remat=auto needs memory-budget-mib, the MiB that a rank may "
                "use; or say remat=none, selective or full");
}

std::optional<plan::DType> fsdp::readReduceDtype(StringRef text) {
  if (text.empty())
    return std::nullopt;
  const plan::DTypeInfo *info = plan::findDType(text);
  if (!info || info->kind != plan::DTypeClass::Float)
    throw wrongValue("reduce-dtype", text,
                     " does not exist; there are " +
                         llvm::join(plan::floatingNames(), ", "));
  return info->dtype;
}

cost::Cluster fsdp::readCluster(StringRef text, plan::DeviceKind device) {
  return cost::findCluster(text == "auto" ? cost::defaultCluster(device)
                                          : text.str());
}

cost::Cluster fsdp::readCluster(StringRef text, ModuleOp module) {
  return readCluster(text, isForGpus(module) ? plan::DeviceKind::Cuda
                                             : plan::DeviceKind::Cpu);
}

SmallVector<StringRef> fsdp::readAttention(StringRef text) {
  SmallVector<StringRef> names;
  text.split(names, ',');
  for (StringRef name : names)
    if (!llvm::is_contained({"flash", "efficient", "cudnn"}, name))
      throw wrongValue("attention", text,
                       " does not exist; it is a list of flash, efficient and "
                       "cudnn, best first");
  return names;
}

std::optional<cost::KernelTable>
fsdp::readKernelTable(KernelChoice kernels, StringRef table, StringRef cluster,
                      plan::DeviceKind device) {
  if (kernels == KernelChoice::Exact) {
    if (!table.empty())
      throw Error(E::OptionsDisagree,
                  "kernel-table is read with kernels=fast; say so, or drop it");
    return std::nullopt;
  }
  if (device == plan::DeviceKind::Cuda)
    throw Error(E::OptionsDisagree,
                "kernels=fast is for device=cpu; kernels of GPUs are not "
                "measured yet");
  if (table.empty())
    return std::nullopt;
  cost::KernelTable measured = cost::readKernelTable(table.str());
  // Another cluster's table is for its own processors.
  if (cluster == "auto" || cluster == "local")
    cost::checkMachine(measured, cost::thisMachine(), table.str());
  return measured;
}

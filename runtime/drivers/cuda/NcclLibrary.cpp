#include "drivers/cuda/NcclLibrary.h"

#include "Error.h"

namespace fsdp {

std::string ncclVersionText(int version) {
  // Until 2.8 the major version was counted in thousands.
  int major = version < 10000 ? 1000 : 10000;
  return std::to_string(version / major) + "." +
         std::to_string(version % major / 100) + "." +
         std::to_string(version % 100);
}

void checkNcclVersion(int version) {
  if (version < NCCL_VERSION(2, 18, 0))
    throw Error(
        E::Nccl,
        "NCCL " + ncclVersionText(version) +
            " is too old, 2.18 is needed; use the one that PyTorch "
            "installs: take others from LD_LIBRARY_PATH and LD_PRELOAD");
}

void checkOneNccl(const std::vector<std::string> &files) {
  if (files.size() > 1)
    throw Error(E::Nccl,
                "this process has two copies of NCCL, " + files[0] + " and " +
                    files[1] +
                    "; take one of them from LD_LIBRARY_PATH and LD_PRELOAD");
}

std::string describeNccl() {
  int version = 0;
  try {
    if (ncclFunctions().getVersion(&version) == ncclSuccess)
      return "NCCL " + ncclVersionText(version);
  } catch (const Error &) {
  }
  return "no NCCL";
}

} // namespace fsdp

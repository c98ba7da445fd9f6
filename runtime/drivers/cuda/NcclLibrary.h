#ifndef FSDP_RUNTIME_DRIVERS_CUDA_NCCLLIBRARY_H
#define FSDP_RUNTIME_DRIVERS_CUDA_NCCLLIBRARY_H

#include <nccl.h>
#include <string>
#include <vector>

namespace fsdp {

/// NCCL's functions, by their names in nccl.h without "nccl".
struct NcclFunctions {
#define NCCL_FUNCTION(FUNCTION, MEMBER) decltype(&::FUNCTION) MEMBER;
#define NCCL_NEWER_FUNCTION(FUNCTION, MEMBER) decltype(&::FUNCTION) MEMBER;
#include "drivers/cuda/NcclFunctions.def"
#undef NCCL_FUNCTION
#undef NCCL_NEWER_FUNCTION
};

/// NCCL as this process has it: PyTorch's own copy, loaded here and not before.
/// Throws Error where there is none, where it is older than 2.18, or where
/// there is another one beside it. Tests link an imitation in its place.
const NcclFunctions &ncclFunctions();

/// "NCCL 2.28.9", or "no NCCL". Never throws.
std::string describeNccl();

/// "2.28.9" of 22809.
std::string ncclVersionText(int version);

/// Throws Error for a version without ncclCommSplit, less than 2.18.
void checkNcclVersion(int version);

/// Throws Error where `files`, copies of NCCL that the process has loaded, are
/// more than one.
void checkOneNccl(const std::vector<std::string> &files);

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_NCCLLIBRARY_H

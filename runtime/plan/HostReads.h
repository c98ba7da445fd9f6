#ifndef FSDP_RUNTIME_PLAN_HOSTREADS_H
#define FSDP_RUNTIME_PLAN_HOSTREADS_H

#include <string_view>

namespace fsdp {

/// A call of an operator, as far as it decides on what its kernel does.
struct KernelCall {
  std::string_view name;     // with its namespace: "aten::index"
  std::string_view overload; // "Tensor", or empty
  bool hasMask = false;      // a member of a list of tensors is bool or uint8
  bool isBFloat16 = false;   // its first tensor is
  double min = 0, max = 0;   // its arguments of these names
};

/// What the kernel for GPUs of an operator reads on the host, so that it waits
/// for the device and is no part of a CUDA graph; null where it reads nothing.
/// Neither includes PyTorch nor asks it: for compiler and runtime alike.
const char *findHostRead(const KernelCall &call);

} // namespace fsdp

#endif // FSDP_RUNTIME_PLAN_HOSTREADS_H

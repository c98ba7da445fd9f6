#include "plan/HostReads.h"

namespace fsdp {

namespace {

enum class When {
  Always,
  Masked,       // among its indices is a mask
  WithoutRange, // `min` and `max` are equal, and those of its operand count
  NotBFloat16   // which Hopper and Blackwell have a kernel for
};

struct HostRead {
  std::string_view operatorName; // all overloads, or "NAME.OVERLOAD"
  When when;
  const char *what;
};

constexpr const char *size = "how many elements its result has";
constexpr const char *check = "whether its operands are valid";
constexpr const char *value = "a value";

// As the CUDA kernels of PyTorch 2.11 are written, and as its operator samples
// wait on a GPU whose kernels do nothing.
constexpr HostRead reads[] = {
    {"aten::_local_scalar_dense", When::Always, value},
    {"aten::item", When::Always, value},
    {"aten::equal", When::Always, value},
    {"aten::is_nonzero", When::Always, value},
    {"aten::nonzero", When::Always, size},
    {"aten::nonzero_numpy", When::Always, size},
    {"aten::masked_fill.Tensor", When::Always, value},
    {"aten::masked_fill_.Tensor", When::Always, value},
    {"aten::index_fill.int_Tensor", When::Always, value},
    {"aten::index_fill_.int_Tensor", When::Always, value},
    {"aten::linspace.Scalar_Tensor", When::Always, value},
    {"aten::linspace.Tensor_Scalar", When::Always, value},
    {"aten::linspace.Tensor_Tensor", When::Always, value},
    {"aten::logspace.Scalar_Tensor", When::Always, value},
    {"aten::logspace.Tensor_Scalar", When::Always, value},
    {"aten::logspace.Tensor_Tensor", When::Always, value},
    {"aten::histc", When::WithoutRange, "the smallest and the largest element"},
    {"aten::_grouped_mm", When::NotBFloat16, "where groups end"},
    {"aten::linalg_matrix_exp", When::Always, "the norms of its operand"},
    {"aten::masked_select", When::Always, size},
    {"aten::masked_scatter_backward", When::Always, size},
    {"aten::index", When::Masked, size},
    {"aten::_unsafe_index", When::Masked, size},
    {"aten::index_put", When::Masked, size},
    {"aten::index_put_", When::Masked, size},
    {"aten::_index_put_impl_", When::Masked, size},
    {"aten::_unsafe_index_put", When::Masked, size},
    {"aten::_unique", When::Always, size},
    {"aten::_unique2", When::Always, size},
    {"aten::unique_dim", When::Always, size},
    {"aten::unique_consecutive", When::Always, size},
    {"aten::unique_dim_consecutive", When::Always, size},
    {"aten::bincount", When::Always, size},
    {"aten::repeat_interleave.Tensor", When::Always, size},
    {"aten::normal.float_Tensor", When::Always, check},
    {"aten::normal.Tensor_Tensor", When::Always, check},
    {"aten::_linalg_check_errors", When::Always, check},
    {"aten::linalg_eig", When::Always, "its operand: it computes on the host"},
    {"aten::linalg_lstsq", When::Always, check},
    {"aten::_ctc_loss", When::Always, "the lengths"},
    {"aten::_ctc_loss_backward", When::Always, "the lengths"},
    {"torchvision::nms", When::Always, size},
};

bool applies(When when, const KernelCall &call) {
  switch (when) {
  case When::Always:
    return true;
  case When::Masked:
    return call.hasMask;
  case When::WithoutRange:
    return call.min == call.max;
  case When::NotBFloat16:
    return !call.isBFloat16;
  }
  return true;
}

/// Whether `entry` is `name`, or "name.overload".
bool names(std::string_view entry, const KernelCall &call) {
  if (entry.substr(0, call.name.size()) != call.name)
    return false;
  entry.remove_prefix(call.name.size());
  return entry.empty() || (entry[0] == '.' && entry.substr(1) == call.overload);
}

} // namespace

const char *findHostRead(const KernelCall &call) {
  for (const HostRead &read : reads)
    if (names(read.operatorName, call) && applies(read.when, call))
      return read.what;
  return nullptr;
}

} // namespace fsdp

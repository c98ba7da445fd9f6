#include "operators/HostReads.h"

namespace fsdp {

namespace {

enum class When {
  Always,
  Masked,    // among its indices is a mask
  MaskedList // and it does not write one element only, which fills by the mask
};

struct HostRead {
  std::string_view operatorName; // all overloads, or "NAME.OVERLOAD"
  When when;
  const char *what;
};

constexpr const char *size = "how many elements its result has";
constexpr const char *check = "whether its operands are valid";
constexpr const char *value = "a value";

// As the CUDA kernels of PyTorch 2.11 are written.
constexpr HostRead reads[] = {
    {"aten::_local_scalar_dense", When::Always, value},
    {"aten::item", When::Always, value},
    {"aten::equal", When::Always, value},
    {"aten::is_nonzero", When::Always, value},
    {"aten::nonzero", When::Always, size},
    {"aten::nonzero_numpy", When::Always, size},
    {"aten::masked_select", When::Always, size},
    {"aten::masked_scatter_backward", When::Always, size},
    {"aten::index", When::Masked, size},
    {"aten::_unsafe_index", When::Masked, size},
    {"aten::index_put", When::MaskedList, size},
    {"aten::index_put_", When::MaskedList, size},
    {"aten::_index_put_impl_", When::MaskedList, size},
    {"aten::_unsafe_index_put", When::MaskedList, size},
    {"aten::_unique", When::Always, size},
    {"aten::_unique2", When::Always, size},
    {"aten::unique_dim", When::Always, size},
    {"aten::unique_consecutive", When::Always, size},
    {"aten::unique_dim_consecutive", When::Always, size},
    {"aten::bincount", When::Always, size},
    {"aten::repeat_interleave.Tensor", When::Always, size},
    {"aten::multinomial", When::Always, check},
    {"aten::normal.float_Tensor", When::Always, check},
    {"aten::normal.Tensor_Tensor", When::Always, check},
    {"aten::_linalg_check_errors", When::Always, check},
    {"aten::linalg_eig", When::Always, "its operand: it computes on the host"},
    {"aten::linalg_lstsq", When::Always, check},
    {"aten::_ctc_loss.Tensor", When::Always, "the lengths"},
    {"aten::_ctc_loss_backward.Tensor", When::Always, "the lengths"},
    {"torchvision::nms", When::Always, size},
};

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
    if (names(read.operatorName, call) &&
        (read.when == When::Always || call.hasMask) &&
        (read.when != When::MaskedList || !call.fillsOne))
      return read.what;
  return nullptr;
}

} // namespace fsdp

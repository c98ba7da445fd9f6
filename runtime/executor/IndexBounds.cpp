#include "executor/IndexBounds.h"

#include "Error.h"

#include <ATen/core/Tensor.h>
#include <algorithm>
#include <optional>

namespace fsdp {

namespace {

enum class Of {
  Last2,    // elements of the last two dimensions
  Last3,    // of the last three
  Classes,  // of the second dimension, or of the only one
  Last,     // of the last dimension
  Rows,     // of the first
  Elements, // of all
  Number    // the argument is the number
};

// An index is from `lowest` to `more` past the last element that the tensor
// `of`, or its dimensions, have.
struct Row {
  const char *operation, *indices, *of;
  Of what;
  int64_t lowest = 0, more = 0;
  const char *ignored = nullptr;
};

constexpr Row rows[] = {
    {"aten::max_pool2d_with_indices_backward", "indices", "self", Of::Last2},
    {"aten::max_pool3d_with_indices_backward", "indices", "self", Of::Last3},
    {"aten::adaptive_max_pool2d_backward", "indices", "self", Of::Last2},
    {"aten::adaptive_max_pool3d_backward", "indices", "self", Of::Last3},
    {"aten::fractional_max_pool2d_backward", "indices", "self", Of::Last2},
    {"aten::fractional_max_pool3d_backward", "indices", "self", Of::Last3},
    {"aten::nll_loss_backward", "target", "self", Of::Classes, 0, 0,
     "ignore_index"},
    {"aten::nll_loss2d_backward", "target", "self", Of::Classes, 0, 0,
     "ignore_index"},
    {"aten::multilabel_margin_loss_backward", "target", "self", Of::Last, -1},
    {"aten::_ctc_loss", "targets", "log_probs", Of::Last},
    {"aten::_ctc_loss_backward", "targets", "log_probs", Of::Last},
    {"aten::_embedding_bag", "indices", "weight", Of::Rows},
    {"aten::_embedding_bag", "offsets", "indices", Of::Elements, 0, 1},
    {"aten::_embedding_bag_forward_only", "indices", "weight", Of::Rows},
    {"aten::_embedding_bag_forward_only", "offsets", "indices", Of::Elements, 0,
     1},
    {"aten::_embedding_bag_backward", "indices", "num_weights", Of::Number},
    {"aten::_embedding_bag_backward", "offsets", "indices", Of::Elements, 0, 1},
    {"aten::_embedding_bag_backward", "offset2bag", "grad", Of::Rows},
    {"aten::_embedding_bag_backward", "maximum_indices", "num_weights",
     Of::Number, -1},
    {"aten::_embedding_bag_dense_backward", "indices", "num_weights",
     Of::Number},
    {"aten::_embedding_bag_dense_backward", "offset2bag", "grad", Of::Rows},
    {"aten::_embedding_bag_dense_backward", "maximum_indices", "num_weights",
     Of::Number, -1},
    {"aten::_embedding_bag_per_sample_weights_backward", "indices", "weight",
     Of::Rows},
    {"aten::_embedding_bag_per_sample_weights_backward", "offsets", "indices",
     Of::Elements, 0, 1},
    {"aten::_embedding_bag_per_sample_weights_backward", "offset2bag", "grad",
     Of::Rows},
};

int64_t count(const c10::IValue &of, Of what) {
  if (what == Of::Number)
    return of.toInt();
  const at::Tensor &tensor = of.toTensor();
  int64_t dims = tensor.dim();
  auto size = [&](int64_t dim) { return dim < 0 ? 0 : tensor.size(dim); };
  switch (what) {
  case Of::Last2:
    return size(dims - 1) * size(dims - 2);
  case Of::Last3:
    return size(dims - 1) * size(dims - 2) * size(dims - 3);
  case Of::Classes:
    return size(dims == 1 ? 0 : 1);
  case Of::Last:
    return size(dims - 1);
  case Of::Rows:
    return size(0);
  default:
    return tensor.numel();
  }
}

struct Range {
  int64_t least = 0, most = 0;
};

/// Of those that are not `ignored`; 0 to 0 where there are none.
template <typename T>
Range rangeOf(const at::Tensor &indices, std::optional<int64_t> ignored) {
  const T *data = indices.const_data_ptr<T>();
  Range range;
  for (int64_t i = 0; i < indices.numel(); ++i) {
    int64_t index = ignored && data[i] == *ignored ? 0 : data[i];
    range.least = std::min(range.least, index);
    range.most = std::max(range.most, index);
  }
  return range;
}
Range rangeOf(const at::Tensor &given, std::optional<int64_t> ignored) {
  at::Tensor indices = given.contiguous();
  switch (indices.scalar_type()) {
  case at::kLong:
    return rangeOf<int64_t>(indices, ignored);
  case at::kInt:
    return rangeOf<int32_t>(indices, ignored);
  default: // of labels in bytes
    return rangeOf<int64_t>(indices.to(at::kLong), ignored);
  }
}

} // namespace

IndexBounds::IndexBounds(const c10::FunctionSchema &schema) {
  for (size_t i = 0; i < std::size(rows); ++i)
    if (schema.name() == rows[i].operation)
      bounds.push_back(i);
}

void IndexBounds::check(const c10::FunctionSchema &schema,
                        const torch::jit::Stack &arguments,
                        const std::string &what) const {
  auto argument = [&](const char *name) -> const c10::IValue & {
    return arguments.at(schema.argumentIndexWithName(name).value());
  };
  auto fail = [&](const Row &row, int64_t index, int64_t lowest, int64_t end) {
    throw Error(E::Operator, what + ": '" + row.indices + "' has the index " +
                                 std::to_string(index) + ", and may have " +
                                 std::to_string(lowest) + " to " +
                                 std::to_string(end - 1) +
                                 "; look at the data it comes from");
  };
  for (size_t i : bounds) {
    const Row &row = rows[i];
    const c10::IValue &given = argument(row.indices);
    // A GPU's kernels compare for themselves, or stop.
    if (!given.isTensor() || !given.toTensor().defined() ||
        !given.toTensor().is_cpu() || !given.toTensor().numel())
      continue;
    int64_t end = count(argument(row.of), row.what) + row.more;
    std::optional<int64_t> ignored;
    if (row.ignored)
      ignored = argument(row.ignored).toInt();
    Range found = rangeOf(given.toTensor(), ignored);
    if (found.least < row.lowest || found.most >= end)
      fail(row, found.least < row.lowest ? found.least : found.most, row.lowest,
           end);
    // Where offsets are one more than there are bags, the last ends them.
    if (!row.more || !schema.argumentIndexWithName("grad"))
      continue;
    const at::Tensor &offsets = given.toTensor();
    int64_t last = offsets.numel() - 1, ends = end - 1;
    if (last == argument("grad").toTensor().size(0))
      if (int64_t index = offsets[last].item<int64_t>(); index != ends)
        fail(row, index, ends, end);
  }
}

} // namespace fsdp

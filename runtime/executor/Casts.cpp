#include "executor/Casts.h"

#include <ATen/ops/_foreach_copy.h>
#include <algorithm>

namespace fsdp {

Casts::Casts(Cast first) { join(first); }

static bool overlap(const at::Tensor &a, const at::Tensor &b) {
  auto begin = [](const at::Tensor &t) {
    return static_cast<const char *>(t.const_data_ptr());
  };
  return begin(a) < begin(b) + b.nbytes() && begin(b) < begin(a) + a.nbytes();
}

/// As one kernel takes many tensors: their elements in one row of memory.
static bool isPlain(const Cast &cast) {
  return cast.from.is_non_overlapping_and_dense() &&
         cast.from.sizes() == cast.to.sizes() &&
         cast.from.strides() == cast.to.strides() && cast.from.numel() > 0;
}

bool Casts::canJoin(const Cast &next) const {
  Cast first = {from.front(), to.front()};
  if (!isPlain(first) || !isPlain(next) ||
      next.from.scalar_type() != first.from.scalar_type() ||
      next.to.scalar_type() != first.to.scalar_type())
    return false;
  auto touches = [](const at::Tensor &tensor,
                    const std::vector<at::Tensor> &others) {
    return std::any_of(
        others.begin(), others.end(),
        [&](const at::Tensor &other) { return overlap(tensor, other); });
  };
  return !touches(next.from, to) && !touches(next.to, to) &&
         !touches(next.to, from);
}

void Casts::join(const Cast &next) {
  from.push_back(next.from);
  to.push_back(next.to);
}

void Casts::run() const {
  if (to.size() == 1)
    to.front().copy_(from.front());
  else
    at::_foreach_copy_(to, from);
}

} // namespace fsdp

// How much work an operator does.
#ifndef FSDP_RUNTIME_COST_WORK_H
#define FSDP_RUNTIME_COST_WORK_H

#include "plan/PlanTypes.h"

#include <string_view>
#include <vector>

namespace fsdp::cost {

/// A tensor's type; `sizes` are another's.
struct TensorShape {
  plan::DType dtype{};
  const int64_t *sizes = nullptr;
  size_t rank = 0;

  const int64_t *begin() const { return sizes; }
  const int64_t *end() const { return sizes + rank; }
  double elements() const;
  double bytes() const { return elements() * plan::dtypeBytes(dtype); }
};

/// Operations (a multiply-add is two), bytes read and written, and the dtype
/// that the operations are done in.
struct Work {
  double flops = 0;
  double bytes = 0;
  plan::DType dtype = plan::DType::Float32;
};

/// The work of a call that is no view, of its tensors in the order of the
/// schema. `callee` is "mm" or "add.Tensor", with its namespace where that is
/// not aten. Operations of matrix products, convolutions and attention are
/// counted; of all else only the bytes. Attention counts as if it were not
/// causal, as model FLOPs are counted.
Work workOf(std::string_view callee, const std::vector<TensorShape> &operands,
            const std::vector<TensorShape> &results);

} // namespace fsdp::cost

#endif // FSDP_RUNTIME_COST_WORK_H

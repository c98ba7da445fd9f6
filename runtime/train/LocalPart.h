#ifndef FSDP_RUNTIME_TRAIN_LOCALPART_H
#define FSDP_RUNTIME_TRAIN_LOCALPART_H

#include "executor/AtenOp.h"
#include "executor/Executor.h"
#include "plan/PlanTypes.h"

#include <ATen/ATen.h>

namespace fsdp {

/// A rank's part of state `i`, with the state's strides, in the executor's own
/// memory.
inline at::Tensor localPart(const plan::PlanT &plan, size_t i,
                            Executor &executor) {
  const plan::StateT &state = *plan.states[i];
  return at::from_blob(executor.stateData(i), state.local_shape, state.strides,
                       at::TensorOptions().dtype(toScalarType(state.dtype)));
}

/// The same as bytes in row-major order: the executor's own memory where its
/// order that is, else a copy, which store() puts there.
class RowMajorPart {
public:
  /// Of a member of a flat state it is the piece of that one.
  RowMajorPart(const plan::PlanT &plan, size_t i, Executor &executor)
      : part(localPart(plan,
                       plan.states[i]->flat < 0 ? i : plan.states[i]->flat,
                       executor)),
        rows(part.is_contiguous() ? part
                                  : at::zeros(part.sizes(), part.options())) {}

  char *data() { return static_cast<char *>(rows.data_ptr()); }
  void store() {
    if (!rows.is_same(part))
      part.copy_(rows);
  }

private:
  at::Tensor part, rows;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_LOCALPART_H

#ifndef FSDP_RUNTIME_TRAIN_LOCALPART_H
#define FSDP_RUNTIME_TRAIN_LOCALPART_H

#include "executor/Executor.h"
#include "plan/PlanTypes.h"

#include <ATen/ATen.h>

namespace fsdp {

/// A rank's part of a state as bytes in row-major order: the executor's own
/// memory where that is the host's and its order that, else a copy, which
/// store() puts there.
class RowMajorPart {
public:
  /// Of a member of a flat state it is the piece of that one.
  RowMajorPart(const plan::PlanT &plan, size_t i, Executor &executor)
      : part(executor.state(plan.states[i]->flat < 0 ? i
                                                     : plan.states[i]->flat)),
        // With what is there: other members of a flat state may be.
        rows(part.contiguous().cpu()) {}

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

#ifndef FSDP_RUNTIME_STATE_ROWMAJORPART_H
#define FSDP_RUNTIME_STATE_ROWMAJORPART_H

#include "executor/Executor.h"

#include <ATen/core/Tensor.h>

namespace fsdp {

/// A rank's part of a state that has memory, as bytes in row-major order: the
/// executor's own memory where that is the host's and its order that, else a
/// copy, which store() puts there.
class RowMajorPart {
public:
  RowMajorPart(Executor &executor, size_t state)
      : part(executor.state(state)), rows(part.contiguous().cpu()) {}

  char *data() { return static_cast<char *>(rows.data_ptr()); }
  size_t bytes() const { return rows.nbytes(); }
  void store() {
    if (!rows.is_same(part))
      part.copy_(rows);
  }

private:
  at::Tensor part, rows;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_ROWMAJORPART_H

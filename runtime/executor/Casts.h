#ifndef FSDP_RUNTIME_EXECUTOR_CASTS_H
#define FSDP_RUNTIME_EXECUTOR_CASTS_H

#include <ATen/core/Tensor.h>
#include <vector>

namespace fsdp {

/// A tensor, and the place of what it is in another dtype.
struct Cast {
  at::Tensor from, to;
};

/// Casts that follow each other, as one launch: a GPU takes longer to launch
/// that of a bias than to do it. The bits are those of each alone.
class Casts {
public:
  explicit Casts(Cast first);

  /// Whether `next`, which follows the others, can be done with them: it has
  /// their dtypes and one order of elements, reads nothing that they write, and
  /// writes over nothing that they read or write.
  bool canJoin(const Cast &next) const;
  void join(const Cast &next);

  /// Allocates nothing.
  void run() const;

private:
  std::vector<at::Tensor> from, to;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_CASTS_H

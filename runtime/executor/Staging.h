#ifndef FSDP_RUNTIME_EXECUTOR_STAGING_H
#define FSDP_RUNTIME_EXECUTOR_STAGING_H

#include "executor/Backend.h"

#include <memory>
#include <vector>

namespace fsdp {

/// Memory of the host that copies on stream 0 read or write while the host goes
/// on.
class Staging {
public:
  /// Room for `bytes`, when the copy before is over. `pieces` are none.
  char *prepare(Backend &backend, Streams &streams, uint64_t bytes);
  /// Launches the copy of `pieces`.
  void launch(Streams &streams);
  /// Waits until what was launched is over.
  void finish(Streams &streams);

  char *data() const { return memory->arena(); }

  std::vector<CopyPiece> pieces;

private:
  std::unique_ptr<ArenaMemory> memory;
  uint64_t size = 0, mark = 0;
  bool underWay = false;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_STAGING_H

#ifndef FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H
#define FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H

#include "executor/Streams.h"

#include <memory>

namespace fsdp {

/// How a program's streams run on the host: all in the calling thread, or a
/// thread for each that has collectives.
enum class HostStreamKind { Inline, Threads };

/// Streams on the host, where what is launched on stream 0 is over on return.
class HostStreams : public Streams {
public:
  uint64_t mark() override { return 0; }
  void await(uint64_t) override {}
  std::optional<Times> times() const override { return spent; }

protected:
  /// A copy, carried out at once.
  static void carryOut(const std::vector<CopyPiece> &pieces);

  Times spent;
};

/// In one thread. A stream goes on as far as it can without waiting for other
/// ranks. A transfer is started when its turn comes. It is finished when
/// another stream needs what stands behind it, or a later transfer of its
/// stream uses the same memory.
std::unique_ptr<Streams> makeInlineStreams(Communicator &communicator);

/// A thread for each stream but 0. Transfers start in the order of their launch
/// over all streams, one at a time. A thread's error is thrown in the calling
/// thread's next call.
std::unique_ptr<Streams> makeThreadStreams(Communicator &communicator);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H

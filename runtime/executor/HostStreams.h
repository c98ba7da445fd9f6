#ifndef FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H
#define FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H

#include "comm/Communicator.h"

#include <functional>
#include <memory>
#include <string>

namespace fsdp {

/// A program's streams on the host. Stream 0 is the calling thread; collectives
/// and copies between arenas run on the others. Calls come in the order of the
/// program's commands, in which a record stands before its waits.
class HostStreams {
public:
  virtual ~HostStreams() = default;

  /// Begins a program with `events` events, none of them recorded.
  virtual void begin(size_t events) = 0;
  /// Launches a collective on a stream. On stream 0 it is over on return.
  virtual void transfer(unsigned stream, const Transfer &transfer) = 0;
  /// cudaLaunchHostFunc: launches a copy on a stream. On stream 0 it is over on
  /// return.
  virtual void copy(unsigned stream, const std::function<void()> &work) = 0;
  /// cudaEventRecord, cudaStreamWaitEvent
  virtual void record(unsigned stream, unsigned event) = 0;
  virtual void wait(unsigned stream, unsigned event) = 0;
  /// Returns when everything launched is over.
  virtual void drain() = 0;
  /// After an error of this rank: ends what is still running. The rank is lost
  /// to the others.
  virtual void abandon(const std::string &reason) = 0;

  /// Seconds since the start that transfers took, summed over streams, and that
  /// the calling thread spent in them or waiting for them.
  double transferSeconds = 0, exposedSeconds = 0;
};

/// In one thread. A stream goes on as far as it can without waiting for other
/// ranks: a transfer is started when its turn comes, and finished when another
/// stream needs what stands behind it.
std::unique_ptr<HostStreams> makeInlineStreams(Communicator &communicator);

/// A thread for each stream but 0. Transfers start in the order of their launch
/// over all streams, one at a time. A thread's error is thrown in the calling
/// thread's next call.
std::unique_ptr<HostStreams> makeThreadStreams(Communicator &communicator);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_HOSTSTREAMS_H

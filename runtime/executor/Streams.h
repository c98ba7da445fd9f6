#ifndef FSDP_RUNTIME_EXECUTOR_STREAMS_H
#define FSDP_RUNTIME_EXECUTOR_STREAMS_H

#include "comm/Communicator.h"
#include "trace/Recorder.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Rows that a copy moves, their beginnings so many bytes apart. Without a
/// source they become zero.
struct CopyPiece {
  char *to;
  const char *from;
  uint64_t rowBytes, rows, toStride, fromStride;
};

/// A program's streams. Stream 0 is that of the kernels, which the calling
/// thread launches itself; collectives and copies between arenas run on the
/// others. Calls come in the order of the program's commands, in which a record
/// stands before its waits.
class Streams {
public:
  virtual ~Streams() = default;

  /// Begins a program with `events` events, none of them recorded. What ran
  /// before is over for all that follows.
  virtual void begin(size_t events) = 0;
  /// Launches a collective on a stream. `name` is for errors, and outlives the
  /// run.
  virtual void transfer(unsigned stream, const Transfer &transfer,
                        const std::string &name) = 0;
  /// Launches a copy on a stream; the list lives until it is over.
  virtual void copy(unsigned stream, const std::vector<CopyPiece> &pieces) = 0;
  /// cudaEventRecord, cudaStreamWaitEvent
  virtual void record(unsigned stream, unsigned event) = 0;
  virtual void wait(unsigned stream, unsigned event) = 0;
  /// Ends the program: what is launched on stream 0 after it, or done by the
  /// host after a mark of it, follows everything launched so far.
  virtual void end() = 0;
  /// After an error of this rank: ends what is still running. The rank is lost
  /// to the others. `why`: see Communicator::leave.
  virtual void abandon(const std::string &why) = 0;

  /// Marks what is on stream 0 so far, for await().
  virtual uint64_t mark() = 0;
  /// The host waits until what a mark stands behind is over. Once for each.
  virtual void await(uint64_t mark) = 0;

  /// From the next begin() on, tells `recorder` what runs on which stream, and
  /// what kept the compute stream; null: nobody.
  virtual void setRecorder(trace::Recorder *recorder) = 0;
  /// With a recorder: the kernels of the command that the program has come to
  /// are launched by `launch` on stream 0.
  virtual void runRecorded(const std::function<void()> &launch) = 0;

  /// Seconds since the start that transfers took, summed over streams, and that
  /// the calling thread spent in them or waiting for them.
  struct Times {
    double transfer = 0, exposed = 0;
  };
  /// Nothing where they are not measured.
  virtual std::optional<Times> times() const = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_STREAMS_H

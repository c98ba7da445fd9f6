#ifndef FSDP_RUNTIME_COMM_COMMUNICATOR_H
#define FSDP_RUNTIME_COMM_COMMUNICATOR_H

#include "device/ArenaMemory.h"
#include "plan/PlanTypes.h"

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>

namespace fsdp {

/// Another rank, or the way to it, failed: what this rank reports is a
/// consequence, not the cause.
struct PeerFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A collective in flight. `count` is the plan's: what one rank contributes to
/// an all-gather or an all-reduce, and receives from a reduce-scatter.
struct Transfer {
  plan::CollectiveKind kind;
  const void *source;
  void *destination;
  size_t count;
  plan::DType dtype;
  /// A sum is divided by it, in `dtype`; 1: it is not.
  double divisor = 1;
  /// Transfers of one channel are carried out in the order of their starts.
  unsigned channel = 0;
  /// An all-gather into a window (see ArenaMemory): where the window shows the
  /// other ranks' memory nothing moves, and finish() says that all sources may
  /// be read there. A source may then be written once every rank has started a
  /// later transfer behind its last read; nothing waits for that by itself.
  bool mapped = false;
};

/// What ranks say to each other. All ranks call the same methods in the same
/// order with the same counts; a call returns when its result is complete and
/// its source may be overwritten. Throws PeerFailure when a rank is gone.
///
/// A reduction is the sum in rank order 0, 1, ..., N-1, rounded to `dtype`
/// after every addition: the same bits for every implementation and size.
class Communicator {
public:
  virtual ~Communicator() = default;

  /// ncclCommUserRank
  virtual int rank() const = 0;

  /// ncclCommCount
  virtual int size() const = 0;

  /// ncclAllGather: `receive` holds size() * count elements, rank r's at
  /// r * count. In place when `send` is this rank's part of `receive`.
  virtual void allGather(const void *send, void *receive, size_t count,
                         plan::DType dtype) = 0;

  /// ncclReduceScatter(ncclSum): `send` holds size() * count elements, of which
  /// rank r receives the sum of those at r * count. In place when `receive` is
  /// this rank's part of `send`.
  virtual void reduceScatter(const void *send, void *receive, size_t count,
                             plan::DType dtype) = 0;

  /// ncclAllReduce(ncclSum) over `count` elements. In place when both are one.
  virtual void allReduce(const void *send, void *receive, size_t count,
                         plan::DType dtype) = 0;

  /// Starts a transfer; does not wait for other ranks. Source and destination
  /// belong to it until finish(). The starts of all ranks over all channels are
  /// the same, in the same order.
  virtual uint64_t start(const Transfer &transfer);

  /// Waits for a transfer: its destination is complete and its source may be
  /// overwritten. Each is finished once, in the order of starts on its channel.
  virtual void finish(uint64_t transfer);

  /// Memory for this rank's arena, and a window onto all ranks'. Collective:
  /// every rank calls it with the same arguments.
  virtual std::unique_ptr<ArenaMemory>
  allocate(const ArenaLayout &layout);

  /// ncclBroadcast, in place.
  virtual void broadcast(void *buffer, size_t count, plan::DType dtype,
                         int root) = 0;

  /// NCCL's idiom is an ncclAllReduce of one element.
  virtual void barrier() = 0;

  /// ncclCommAbort: this rank failed; wakes the others, whose pending and later
  /// calls throw PeerFailure with `reason`.
  virtual void abort(const std::string &reason) = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_COMMUNICATOR_H

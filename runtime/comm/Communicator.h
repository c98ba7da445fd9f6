#ifndef FSDP_RUNTIME_COMM_COMMUNICATOR_H
#define FSDP_RUNTIME_COMM_COMMUNICATOR_H

#include "plan/PlanTypes.h"

#include <cstddef>
#include <stdexcept>
#include <string>

namespace fsdp {

/// Another rank, or the way to it, failed: what this rank reports is a
/// consequence, not the cause.
struct PeerFailure : std::runtime_error {
  using std::runtime_error::runtime_error;
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

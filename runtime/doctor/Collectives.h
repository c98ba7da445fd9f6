#ifndef FSDP_RUNTIME_DOCTOR_COLLECTIVES_H
#define FSDP_RUNTIME_DOCTOR_COLLECTIVES_H

#include "comm/Communicator.h"

#include <functional>
#include <string>
#include <vector>

namespace fsdp::doctor {

/// How fast a kind of collective was: bytes that a rank gets from the others,
/// per second, which nccl-tests calls the bus bandwidth.
struct Bandwidth {
  std::string kind;
  double bytesPerSecond = 0;
};

/// How collectives went over a transport.
struct TransportFigures {
  std::string transport; // "shared memory", "Gloo", "NCCL 2.28.9"
  bool isNeeded = false; // a run of these ranks would use it
  std::string error;     // empty: it works
  /// Bytes of the largest piece that arrived; 0: the ranks were not connected.
  uint64_t reached = 0;
  double latency = 0; // seconds, of an all-reduce of 4 bytes
  std::vector<Bandwidth> bandwidths;
};

/// Carries a transfer to its end.
using Carry = std::function<void(const Transfer &)>;

/// Floats that rank's buffers need for measureCollectives(): `send` and
/// `receive` alike.
size_t floatsToMeasure(uint32_t ranks);

/// One collective of each kind between all ranks, small ones first. Fills in
/// what is known when a rank fails to answer, and throws PeerFailure then.
void measureCollectives(const Carry &carry, float *send, float *receive,
                        uint32_t ranks, TransportFigures &figures);

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_COLLECTIVES_H

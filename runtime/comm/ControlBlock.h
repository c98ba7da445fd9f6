// What the ranks of a SharedMemoryCommunicator tell each other: one block per
// rank, in memory that all of them map. Numbers only grow, so nothing is ever
// reset while another rank may still look at it. All zero at the beginning.
#ifndef FSDP_RUNTIME_COMM_CONTROLBLOCK_H
#define FSDP_RUNTIME_COMM_CONTROLBLOCK_H

#include "comm/Communicator.h"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <sched.h>

namespace fsdp {

/// A cache line: what one rank writes and another polls has one of its own.
constexpr size_t lineBytes = 64;

/// The parts of a transfer's work on one rank's piece, which any rank may do.
/// A word holds the transfer's number and a count, so that a rank that comes
/// late sees that the work is of another, later transfer, and leaves it.
class SharedWork {
public:
  /// By the rank whose piece it is, before it says that it has started.
  void open(uint64_t transfer) {
    completed.store(transfer << countBits, std::memory_order_relaxed);
    claimed.store(transfer << countBits, std::memory_order_relaxed);
  }
  /// Takes one of `parts`, which nobody else takes then. False: none is left.
  bool claim(uint64_t transfer, uint64_t parts, uint64_t &part) {
    uint64_t word = claimed.load(std::memory_order_acquire);
    do {
      part = word & countMask;
      if (word >> countBits != transfer || part >= parts)
        return false;
    } while (!claimed.compare_exchange_weak(word, word + 1,
                                            std::memory_order_acq_rel));
    return true;
  }
  /// True: it was the last part.
  bool complete(uint64_t parts) {
    uint64_t before = completed.fetch_add(1, std::memory_order_acq_rel);
    return (before & countMask) + 1 == parts;
  }
  bool done(uint64_t transfer, uint64_t parts) const {
    uint64_t word = completed.load(std::memory_order_acquire);
    return word >> countBits != transfer || (word & countMask) >= parts;
  }

  static constexpr unsigned countBits = 24;
  static constexpr uint64_t countMask = (1 << countBits) - 1;

private:
  std::atomic<uint64_t> claimed, completed;
};

/// One rank's share of one transfer.
struct alignas(lineBytes) Slot {
  SharedWork work;
  /// Where source and destination are: an arena and an offset in it (see
  /// SharedMemoryCommunicator::locate).
  std::atomic<uint64_t> source, destination;
  /// Of Communicator::Clock, which the processes of a host share.
  std::atomic<int64_t> startTime;
  /// What the rank takes it for, as TransferSignature::pack says it.
  std::atomic<uint64_t> signature[2];
};

/// One rank's side of a channel.
struct ChannelControl {
  static constexpr uint64_t numSlots = 512;
  /// Transfers in flight at most: start() finishes the oldest before. Half of
  /// the slots: one that has started so many behind a transfer has finished it,
  /// and its share of it stays as long again for others to find.
  static constexpr uint64_t maxInFlight = numSlots / 2;
  /// One of two halves of what a rank shows of memory outside the arenas.
  static constexpr size_t stagingBytes = 128 << 10;

  /// The number of the last transfer started, and of the last half filled.
  alignas(lineBytes) std::atomic<uint64_t> started, staged;
  /// 1: the rank sleeps until somebody sets it to 0 and wakes it.
  alignas(lineBytes) std::atomic<uint32_t> asleep;
  Slot slots[numSlots];
  alignas(lineBytes) char staging[2][stagingBytes];
};

struct ControlBlock {
  static constexpr size_t reasonBytes = 512;

  /// 1: the rank has failed, or another one before it, and it says why.
  alignas(lineBytes) std::atomic<uint32_t> failed;
  char reason[reasonBytes];
  /// Where the rank may run.
  cpu_set_t cpus;
  /// Until when to take it that something else wants the rank's CPU; of
  /// Communicator::Clock.
  alignas(lineBytes) std::atomic<int64_t> contendedUntil;
  ChannelControl channels[numChannels];
};

static_assert(std::atomic<uint64_t>::is_always_lock_free &&
                  std::atomic<uint32_t>::is_always_lock_free,
              "atomics between processes hold no lock");

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_CONTROLBLOCK_H

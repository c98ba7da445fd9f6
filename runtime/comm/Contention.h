// Whether a thread shares its CPU with others that want to run.

#ifndef FSDP_RUNTIME_COMM_CONTENTION_H
#define FSDP_RUNTIME_COMM_CONTENTION_H

#include <chrono>

namespace fsdp {

/// How long the calling thread has been ready to run while others had its CPU,
/// since it began; 0 where the kernel does not count.
std::chrono::nanoseconds timeWithoutCpu();

/// What a thread finds out about its CPU, a look at a time.
class Contention {
public:
  using Clock = std::chrono::steady_clock;

  /// Whether enough time has passed since the last look for another one.
  bool isDue(Clock::time_point now) const { return now - last >= interval; }

  /// `without` is timeWithoutCpu(). Returns whether that grew by more than a
  /// tenth of the time since the last look. The first look finds nothing.
  bool look(Clock::time_point now, std::chrono::nanoseconds without);

private:
  /// Some slices of the scheduler, whose base is 3 ms.
  static constexpr auto interval = std::chrono::milliseconds(20);

  Clock::time_point last = {};
  std::chrono::nanoseconds before = {};
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_CONTENTION_H

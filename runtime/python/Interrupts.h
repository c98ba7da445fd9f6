#ifndef FSDP_RUNTIME_PYTHON_INTERRUPTS_H
#define FSDP_RUNTIME_PYTHON_INTERRUPTS_H

#include <functional>

namespace fsdp {

/// While it lives, an interrupt (SIGINT) that comes while the calling thread is
/// within a call for long ends what the call waits for. Python hears of the
/// interrupt as ever, but only when the call returns. So that a step that runs
/// is finished, the call has some seconds; a second interrupt does not wait.
class InterruptedCall {
public:
  /// `giveUp` is called from another thread, at most once.
  explicit InterruptedCall(std::function<void()> giveUp);
  ~InterruptedCall();
  InterruptedCall(const InterruptedCall &) = delete;
  InterruptedCall &operator=(const InterruptedCall &) = delete;

  /// The thread that watches calls reads and writes these two, under its lock.
  std::function<void()> giveUp;
  unsigned long number = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_PYTHON_INTERRUPTS_H

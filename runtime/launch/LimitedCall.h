#ifndef FSDP_RUNTIME_LAUNCH_LIMITEDCALL_H
#define FSDP_RUNTIME_LAUNCH_LIMITEDCALL_H

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace fsdp {

/// Calls a function that may wait for ever, up to `limit`, and gives what it
/// gives or throws. Where it is late, throws what `late()` gives; the call goes
/// on in its thread, so it owns all that it uses.
template <typename Call, typename Late>
auto callUpTo(std::chrono::steady_clock::time_point limit, Call call,
              Late late) {
  std::packaged_task<decltype(call())()> task(std::move(call));
  auto result = task.get_future();
  std::thread thread(std::move(task));
  if (result.wait_until(limit) != std::future_status::ready) {
    thread.detach();
    throw late();
  }
  thread.join();
  return result.get();
}

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_LIMITEDCALL_H

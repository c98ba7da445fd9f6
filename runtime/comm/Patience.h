#ifndef FSDP_RUNTIME_COMM_PATIENCE_H
#define FSDP_RUNTIME_COMM_PATIENCE_H

#include <chrono>
#include <functional>
#include <string>

namespace fsdp {

/// How long a rank waits for another one within a collective.
struct Patience {
  template <typename Rep, typename Period>
  Patience(std::chrono::duration<Rep, Period> limit) : limit(limit) {}

  /// Then the wait is an error. Longer than a rank may load, save or evaluate.
  std::chrono::milliseconds limit;
  /// Then people are told.
  std::chrono::milliseconds noteAfter = std::chrono::seconds(30);
  /// Takes a sentence without its full stop; null: nobody is told.
  std::function<void(const std::string &)> note = nullptr;
  /// Takes why a wait for a device is an error, before it is thrown: for ranks
  /// that cannot end before the device does. Need not return. Null: nobody.
  std::function<void(const std::string &)> atLimit = nullptr;
};

/// "30 s".
inline std::string inSeconds(std::chrono::milliseconds time) {
  return std::to_string(time.count() / 1000) + " s";
}

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_PATIENCE_H

#include "launch/ErrorReport.h"

#include "comm/Communicator.h"
#include "plan/FormatText.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>
#include <system_error>

namespace fsdp {

RankError describeCurrentError() {
  try {
    throw;
  } catch (const PeerFailure &error) {
    return {error.what() + error.addition, error.kind, /*consequence=*/true};
  } catch (const std::bad_alloc &) {
    return {"out of memory; use more ranks or a smaller batch", E::OutOfMemory};
  } catch (const std::system_error &error) {
    // Who throws it has nothing else to say: std::thread.
    if (error.code() == std::errc::resource_unavailable_try_again)
      return {
          "a thread cannot be started: " + error.code().message() +
              "; allow more processes (ulimit -u, or the container's limit) "
              "or more memory (ulimit -v)",
          E::System};
    return {firstLine(error.what()), kindOf(error)};
  } catch (const std::exception &error) {
    return {firstLine(error.what()), kindOf(error)};
  }
}

void leaveError(const std::string &file, const RankError &error) {
  nlohmann::json json = {{"message", error.message},
                         {"kind", static_cast<int>(error.kind)},
                         {"consequence", error.consequence}};
  std::ofstream(file) << json.dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::optional<RankError> collectError(const std::string &file) {
  std::ifstream stream(file);
  nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object())
    return std::nullopt;
  return RankError{json.value("message", ""),
                   static_cast<E>(json.value("kind", 0)),
                   json.value("consequence", false)};
}

void writeLauncherErrorFile(const RankError &error) {
  const char *path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path)
    return;
  // A rank that was killed leaves no file: the agent takes the time at which it
  // sees that, in whole seconds, or at which it has killed one that is stopped,
  // half a minute later. What only follows from that is to be later still.
  std::time_t time = std::time(nullptr) + (error.consequence ? 60 : 0);
  nlohmann::json json;
  // Without a "py_callstack", which would be shown instead of the message.
  json["message"] = {{"message", withIdentifier(error.message, error.kind)},
                     {"extraInfo", {{"timestamp", std::to_string(time)}}}};
  std::ofstream(path) << json.dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

void printError(const std::string &message, E kind, int rank) {
  std::string line = "error: ";
  if (rank >= 0)
    line += "[rank " + std::to_string(rank) + "] ";
  for (char c : visible(withIdentifier(message, kind)))
    line += c == '\n' ? ' ' : c;
  line += '\n';
  // One write, so that ranks do not mix within a line.
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace fsdp

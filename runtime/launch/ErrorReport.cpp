#include "launch/ErrorReport.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>

namespace fsdp {

void leaveError(const std::string &file, const RankError &error) {
  nlohmann::json json = {{"message", error.message},
                         {"consequence", error.consequence}};
  std::ofstream(file) << json.dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

std::optional<RankError> collectError(const std::string &file) {
  std::ifstream stream(file);
  nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  if (!json.is_object())
    return std::nullopt;
  return RankError{json.value("message", ""), json.value("consequence", false)};
}

void writeLauncherErrorFile(const std::string &message) {
  const char *path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (!path || !*path)
    return;
  nlohmann::json json;
  json["message"] = {{"message", message},
                     {"extraInfo",
                      {{"py_callstack", ""},
                       {"timestamp", std::to_string(std::time(nullptr))}}}};
  std::ofstream(path) << json.dump(-1, ' ', false,
                                   nlohmann::json::error_handler_t::replace);
}

void printError(const std::string &message, int rank) {
  std::string line = "error: ";
  if (rank >= 0)
    line += "[rank " + std::to_string(rank) + "] ";
  for (char c : message)
    line += c == '\n' || c == '\r' ? ' ' : c;
  line += '\n';
  // One write, so that ranks do not mix within a line.
  std::fflush(stdout);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

} // namespace fsdp

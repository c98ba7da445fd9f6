// A command line of fsdp-run, a word in each line.
#include "FuzzTarget.h"

#include "CommandLine.h"
#include "Error.h"
#include "launch/Rendezvous.h"

#include <optional>
#include <string>
#include <vector>

using namespace fsdp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::vector<std::string> words{"fsdp-run", ""};
  for (size_t i = 0; i < size; ++i)
    if (data[i] == '\n')
      words.emplace_back();
    else if (data[i])
      words.back() += static_cast<char>(data[i]);
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  CommandLine line;
  try {
    if (parseCommandLine(static_cast<int>(words.size()), argv.data(), line))
      return 0;
    parseMeetingPoint(
        line.launch.meetingUrl(),
        [](const std::string &) -> std::optional<std::string> { return {}; });
  } catch (const Error &) {
  }
  return 0;
}

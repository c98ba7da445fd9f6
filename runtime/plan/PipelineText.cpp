#include "plan/PipelineText.h"

namespace fsdp::plan {

std::vector<PipelineOption> pipelineOptions(const std::string &text) {
  std::vector<PipelineOption> options;
  std::string pipeline, word;
  int depth = 0;
  auto endOption = [&] {
    size_t at = word.find('=');
    if (!word.empty())
      options.push_back({pipeline, word.substr(0, at),
                         at == std::string::npos ? "" : word.substr(at + 1)});
    word.clear();
  };
  for (char c : text) {
    if (c == '{' && depth++ == 0) {
      pipeline = word;
      word.clear();
    } else if (c == '}' && --depth == 0) {
      endOption();
    } else if (depth == 0 && c == ',') {
      word.clear();
    } else if (depth == 1 && c == ' ') {
      endOption();
    } else {
      word += c;
    }
  }
  return options;
}

} // namespace fsdp::plan

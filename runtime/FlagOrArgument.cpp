#include "FlagOrArgument.h"

#include <atomic>

namespace fsdp {

static std::atomic<bool> takesArguments{false};

void takeArguments() { takesArguments = true; }

std::string flagOrArgument(const std::string &flag,
                           const std::string &argument) {
  return takesArguments ? argument : flag;
}

} // namespace fsdp

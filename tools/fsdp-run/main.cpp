// Trains a compiled plan. The work is in runtime/; here are flags and ranks.
#include "CommandLine.h"
#include "Ranks.h"

#include <cstdlib>

int main(int argc, char **argv) {
  // c10d's warnings about connections that are retried are no news to a user;
  // what fails is reported once, by us.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  fsdp::CommandLine line;
  if (std::optional<int> status = fsdp::parseCommandLine(argc, argv, line))
    return *status;
  return fsdp::runRanks(line, argc, argv);
}

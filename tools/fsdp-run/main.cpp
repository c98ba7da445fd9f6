// Trains a compiled plan. The work is in runtime/; here are flags and ranks.
#include "CommandLine.h"
#include "EndProgram.h"
#include "Ranks.h"

int main(int argc, char **argv) {
  fsdp::CommandLine line;
  if (std::optional<int> status = fsdp::parseCommandLine(argc, argv, line))
    fsdp::endPrinted(*status);
  fsdp::endProgram(fsdp::runRanks(line, argc, argv));
}

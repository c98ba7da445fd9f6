// Trains a compiled plan. The work is in runtime/; here are flags and ranks.
#include "CommandLine.h"
#include "CrashReport.h"
#include "Decline.h"
#include "EndProgram.h"
#include "Error.h"
#include "PrepareProcess.h"
#include "Ranks.h"
#include "launch/ErrorReport.h"

#include <csignal>
#include <cstdlib>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>

/// Where the process that started a run has named itself, as the driver does,
/// the run ends with it, however it ends.
static void endWithStarter() {
  const char *variable = "FSDP_MLIR_STARTER";
  const char *starter = std::getenv(variable);
  if (!starter)
    return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(getppid()) != starter) // which is gone already
    raise(SIGTERM);
  unsetenv(variable); // ranks are started by this one
}

int main(int argc, char **argv) {
  fsdp::reportCrashes();
  endWithStarter();
  fsdp::prepareProcess();
  fsdp::CommandLine line;
  try {
    if (std::optional<int> status = fsdp::parseCommandLine(argc, argv, line))
      fsdp::endPrinted(*status);
  } catch (const fsdp::Error &mistake) {
    fsdp::printError(mistake.what(), mistake.kind);
    if (auto meeting = fsdp::parseMeeting(argc, argv))
      fsdp::decline(*meeting, mistake.what());
    fsdp::endProgram(2);
  }
  fsdp::endProgram(fsdp::runRanks(line, argc, argv));
}

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
/// the run ends with it, however it ends. Says whether there is one.
static bool endWithStarter() {
  const char *variable = "FSDP_MLIR_STARTER";
  const char *starter = std::getenv(variable);
  if (!starter)
    return false;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(getppid()) != starter) // which is gone already
    raise(SIGTERM);
  unsetenv(variable); // ranks are started by this one
  return true;
}

int main(int argc, char **argv) {
  fsdp::reportCrashes();
  bool isAwaited = endWithStarter();
  fsdp::prepareProcess();
  fsdp::CommandLine line;
  try {
    if (std::optional<int> status = fsdp::parseCommandLine(argc, argv, line))
      fsdp::endPrinted(*status);
  } catch (const fsdp::Error &mistake) {
    fsdp::printError(mistake.what(), mistake.kind);
    if (auto meeting = fsdp::parseMeeting(argc, argv)) {
      meeting->launch.isAwaited = isAwaited;
      fsdp::decline(*meeting, mistake.what());
    }
    fsdp::endProgram(2);
  }
  if (!line.launch.declined.empty()) {
    fsdp::decline(line, line.launch.declined);
    fsdp::endProgram(0);
  }
  line.launch.isAwaited = isAwaited;
  fsdp::endProgram(fsdp::runRanks(line, argc, argv));
}

#include "PrepareProcess.h"

#include "comm/GlooProcess.h"

#include <c10/util/Logging.h>
#include <csignal>
#include <cstdlib>

namespace fsdp {

void prepareProcess() {
  // Whoever read our words may be gone: that is no reason to end.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN); // beyond `ulimit -f`
  // c10d's notes on connections that are tried again are no news to a user;
  // what fails is reported once, by us.
  setenv("TORCH_CPP_LOG_LEVEL", "FATAL", /*overwrite=*/0);
  setGlooVariables();
  c10::initLogging();
}

} // namespace fsdp

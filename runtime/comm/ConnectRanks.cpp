#include "comm/ConnectRanks.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "comm/SharedMemoryCommunicator.h"

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace fsdp {

Connection connectRanks(c10d::Store &store, int rank, int size,
                        const CommOptions &options,
                        const GlooAddress &address) {
  Connection result;
  result.reason = "as " + flagOrArgument("--comm", "comm=") + " says";
  auto base = c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store);
  auto keys = [&](const char *name) {
    return c10::make_intrusive<c10d::PrefixStore>(name, base);
  };
  if (options.transport != HostTransport::Gloo) {
    try {
      result.communicator = createSharedMemoryCommunicator(
          *keys("memory"), rank, size, options.patience);
      result.reason = "all are on one host";
    } catch (const Error &error) {
      if (options.transport == HostTransport::SharedMemory)
        throw Error(E::SharedMemory,
                    std::string(error.what()) + "; drop " +
                        flagOrArgument("--comm shm", "comm='shm'"));
      result.reason = error.what();
    }
  }
  if (!result.communicator)
    result.communicator = createGlooCommunicator(*keys("gloo"), rank, size,
                                                 address, options.patience);
  if (options.throttle)
    result.communicator = createThrottledCommunicator(
        std::move(result.communicator), *options.throttle);
  return result;
}

} // namespace fsdp

// NCCL, imitated for tests: ranks are threads of one process, each with streams
// of the imitated CUDA, and a transfer takes place when the streams of all its
// ranks have reached it. Until then each stream waits, as a GPU does. Transfers
// of one communicator follow each other in the order of their launches, also
// those of a graph. Where real ranks would hang or write garbage since they do
// not launch the same, the communicator reports ncclInvalidUsage in the manner
// of asynchronous errors.

#ifndef FSDP_TEST_IMITATION_IMITATEDNCCL_H
#define FSDP_TEST_IMITATION_IMITATEDNCCL_H

#include <nccl.h>

namespace fsdp::imitation {

/// While it lives, the calling thread has another version of NCCL; until 2.19
/// it has no memory of its own and registers none.
class UseNccl {
public:
  explicit UseNccl(int version);
  ~UseNccl();
  UseNccl(const UseNccl &) = delete;
  UseNccl &operator=(const UseNccl &) = delete;

private:
  int before;
};

/// The calling thread's next call of NCCL but one about versions and errors
/// does nothing and returns `result`.
void failNccl(ncclResult_t result);

/// The calling thread's next transfer is not launched, and its communicator
/// then reports `result`.
void failTransfer(ncclResult_t result);

/// What the process holds of NCCL.
struct NcclCounts {
  int communicators = 0, registrations = 0;
};
NcclCounts ncclInUse();

} // namespace fsdp::imitation

#endif // FSDP_TEST_IMITATION_IMITATEDNCCL_H

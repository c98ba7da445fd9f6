#ifndef FSDP_TEST_UNIT_THREADRANKS_H
#define FSDP_TEST_UNIT_THREADRANKS_H

#include "comm/SharedMemoryCommunicator.h"

#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace fsdp::test {

/// Ranks as threads of this process, each of which calls connect().
class ThreadRanks {
public:
  explicit ThreadRanks(int size) : size(size) {}
  std::unique_ptr<Communicator> connect(int rank) {
    return createSharedMemoryCommunicator(*store, rank, size,
                                          std::chrono::seconds(60));
  }

private:
  int size;
  c10::intrusive_ptr<c10d::Store> store =
      c10::make_intrusive<c10d::HashStore>();
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_THREADRANKS_H

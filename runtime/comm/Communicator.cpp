#include "comm/Communicator.h"

#include "comm/Reduce.h"

namespace fsdp {

uint64_t Communicator::start(const Transfer &transfer) {
  switch (transfer.kind) {
  case plan::CollectiveKind::AllGather:
    allGather(transfer.source, transfer.destination, transfer.count,
              transfer.dtype);
    break;
  case plan::CollectiveKind::ReduceScatter:
    reduceScatter(transfer.source, transfer.destination, transfer.count,
                  transfer.dtype);
    break;
  case plan::CollectiveKind::AllReduce:
    allReduce(transfer.source, transfer.destination, transfer.count,
              transfer.dtype);
    break;
  }
  if (transfer.divisor != 1)
    divide(transfer.destination, transfer.count, transfer.dtype,
           transfer.divisor);
  return 0;
}

void Communicator::finish(uint64_t) {}

std::unique_ptr<ArenaMemory> Communicator::allocate(const ArenaLayout &layout) {
  return std::make_unique<PlainArenaMemory>(layout);
}

} // namespace fsdp

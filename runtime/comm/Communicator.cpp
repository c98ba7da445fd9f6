#include "comm/Communicator.h"

#include <cstring>
#include <vector>

namespace fsdp {

void Communicator::allGather(const void *send, void *receive, size_t count,
                             plan::DType dtype,
                             std::optional<plan::RankGroup> group) {
  Transfer transfer{plan::CollectiveKind::AllGather, send, receive, count,
                    dtype};
  transfer.group = group;
  finish(start(transfer));
}

void Communicator::reduceScatter(const void *send, void *receive, size_t count,
                                 plan::DType dtype, double divisor) {
  finish(start({plan::CollectiveKind::ReduceScatter, send, receive, count,
                dtype, divisor}));
}

void Communicator::allReduce(const void *send, void *receive, size_t count,
                             plan::DType dtype, double divisor,
                             plan::ReduceOp op) {
  Transfer transfer{
      plan::CollectiveKind::AllReduce, send, receive, count, dtype, divisor};
  transfer.op = op;
  finish(start(transfer));
}

void Communicator::broadcast(void *buffer, size_t count, plan::DType dtype,
                             int root) {
  size_t bytes = count * plan::dtypeBytes(dtype);
  std::vector<char> all(bytes * size());
  allGather(buffer, all.data(), count, dtype);
  if (bytes)
    std::memcpy(buffer, all.data() + root * bytes, bytes);
}

void Communicator::barrier() {
  uint8_t here = 0;
  allReduce(&here, &here, 1, plan::DType::UInt8);
}

} // namespace fsdp

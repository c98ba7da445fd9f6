#include "train/FirstProblem.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace fsdp {

std::string firstProblem(Communicator &communicator, const std::string &mine) {
  if (communicator.size() == 1)
    return mine;
  uint8_t any = !mine.empty();
  communicator.allReduce(&any, &any, 1, plan::DType::UInt8, 1,
                         plan::ReduceOp::Max);
  if (!any)
    return "";
  constexpr size_t length = 512;
  std::vector<char> text(length), all(length * communicator.size());
  std::strncpy(text.data(), mine.c_str(), length - 1);
  communicator.allGather(text.data(), all.data(), length, plan::DType::UInt8);
  int rank = 0;
  while (!all[rank * length])
    ++rank;
  return "rank " + std::to_string(rank) + ": " + &all[rank * length];
}

std::string textOfRank0(Communicator &communicator, const std::string &mine) {
  if (communicator.size() == 1)
    return mine;
  uint64_t size = mine.size();
  communicator.broadcast(&size, sizeof(size), plan::DType::UInt8, 0);
  if (!size)
    return "";
  std::string text = mine;
  text.resize(size);
  communicator.broadcast(text.data(), size, plan::DType::UInt8, 0);
  return text;
}

} // namespace fsdp

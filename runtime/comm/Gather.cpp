#include "comm/Gather.h"

#include <algorithm>

namespace fsdp {

std::vector<int64_t> gatherNumbers(Communicator &communicator, int64_t mine) {
  std::vector<int64_t> all(communicator.size(), mine);
  if (communicator.size() > 1)
    communicator.allGather(&mine, all.data(), 1, plan::DType::Int64);
  return all;
}

std::vector<std::vector<char>> gatherBytes(Communicator &communicator,
                                           const std::vector<char> &mine,
                                           int root) {
  constexpr size_t largestPiece = 1 << 16;
  std::vector<int64_t> sizes =
      gatherNumbers(communicator, static_cast<int64_t>(mine.size()));
  size_t most = *std::max_element(sizes.begin(), sizes.end());
  size_t piece = std::min(most, largestPiece);
  bool keeps = communicator.rank() == root;
  std::vector<std::vector<char>> all(keeps ? sizes.size() : 0);
  std::vector<char> send(piece), received(piece * sizes.size());
  for (size_t at = 0; at < most; at += piece) {
    size_t end = std::min(mine.size(), at + piece);
    if (at < end)
      std::copy(mine.begin() + at, mine.begin() + end, send.begin());
    if (communicator.size() > 1)
      communicator.allGather(send.data(), received.data(), piece,
                             plan::DType::UInt8);
    else
      received = send;
    for (size_t rank = 0; rank < all.size(); ++rank) {
      size_t size = sizes[rank], last = std::min(size, at + piece);
      if (at < last)
        all[rank].insert(all[rank].end(), received.begin() + rank * piece,
                         received.begin() + rank * piece + (last - at));
    }
  }
  return all;
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

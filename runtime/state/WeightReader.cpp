#include "state/WeightReader.h"

#include "Error.h"
#include "comm/Gather.h"
#include "comm/SameOnAllRanks.h"

#include <algorithm>
#include <cstring>

namespace fsdp {

/// Complex numbers lie in a file as the pairs of numbers that a plan has of
/// them, in a last dimension of 2.
static bool holds(const FileTensor &found, const NamedTensor &wanted) {
  if (found.dtype != plan::DType::Complex64 ||
      wanted.dtype != plan::DType::Float32)
    return found.dtype == wanted.dtype && found.shape == wanted.shape;
  std::vector<int64_t> pairs = found.shape;
  pairs.push_back(2);
  return pairs == wanted.shape;
}

WeightReader::WeightReader(const std::string &path, bool fromRank0,
                           Communicator &communicator)
    : communicator(communicator), path(path),
      scatters(fromRank0 && communicator.size() > 1) {
  if (!scatters || communicator.rank() == 0)
    files.emplace(path);
  if (!scatters && communicator.size() > 1)
    requireSame();
}

/// What differs may be one byte that some ranks read. Ranks of one host that
/// read one file have nothing to compare; where there are several, each is read
/// whole once, by the ranks that have it together.
void WeightReader::requireSame() {
  std::vector<int64_t> all =
      gatherNumbers(communicator, static_cast<int64_t>(files->identity()));
  auto mine = all.begin() + communicator.rank();
  size_t shares = std::count(all.begin(), all.end(), *mine);
  if (shares == all.size())
    return;
  size_t share = std::count(all.begin(), mine, *mine);
  std::vector<int64_t> hashes = gatherNumbers(
      communicator, static_cast<int64_t>(files->fingerprint(share, shares)));
  uint64_t sum = 0;
  for (size_t rank = 0; rank < all.size(); ++rank)
    if (all[rank] == *mine)
      sum += static_cast<uint64_t>(hashes[rank]);
  requireSameOnAllRanks(communicator, {{"as the fingerprint of " + path, sum}});
}

bool WeightReader::hasAny(const std::vector<const NamedTensor *> &tensors) {
  uint8_t any =
      files &&
      std::any_of(tensors.begin(), tensors.end(),
                  [&](const NamedTensor *tensor) {
                    return bool(files->find(tensor->name, tensor->aliases));
                  });
  if (scatters)
    communicator.broadcast(&any, 1, plan::DType::UInt8, 0);
  return any;
}

void WeightReader::check(
    const std::vector<const NamedTensor *> &tensors) const {
  if (!files)
    return;
  std::string problems;
  for (const NamedTensor *tensor : tensors) {
    WeightFiles::Found found = files->find(tensor->name, tensor->aliases);
    std::string problem;
    if (!found)
      problem = "it has no " + tensor->name;
    else if (!holds(*found.tensor, *tensor))
      problem = tensor->name + " is " +
                describe(found.tensor->dtype, found.tensor->shape) +
                ", the plan has " + describe(tensor->dtype, tensor->shape);
    if (!problem.empty())
      problems += (problems.empty() ? "" : "; ") + problem;
  }
  if (!problems.empty())
    throw Error(E::WeightsMismatch, "weights in " + path +
                                        " do not fit the plan: " + problems +
                                        "; export both together");
}

void WeightReader::read(const NamedTensor &tensor, const RunsOf &runsOf,
                        char *local) {
  if (scatters)
    return scatter(tensor, runsOf, local);
  WeightFiles::Found found = files->find(tensor.name, tensor.aliases);
  int64_t size = tensor.elementBytes();
  for (const Run &run : runsOf(communicator.rank()))
    found.file->read(*found.tensor, run.whole * size, run.count * size,
                     local + run.local * size);
}

/// A scatter is a reduce-scatter to which rank 0 alone adds something. In
/// pieces, so that it takes little memory.
void WeightReader::scatter(const NamedTensor &tensor, const RunsOf &runsOf,
                           char *local) {
  constexpr int64_t bufferBytes = 16 << 20;
  int ranks = communicator.size();
  int64_t size = tensor.elementBytes();
  std::vector<std::vector<Run>> runs;
  int64_t largest = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    runs.push_back(runsOf(rank));
    int64_t count = 0;
    for (const Run &run : runs.back())
      count += run.count;
    largest = std::max(largest, count);
  }
  int64_t piece = std::max<int64_t>(bufferBytes / ranks / size, 1);
  piece = std::min(piece, largest);
  std::vector<char> all(ranks * piece * size), mine(piece * size);
  for (int64_t begin = 0; begin < largest; begin += piece) {
    if (files) {
      WeightFiles::Found found = files->find(tensor.name, tensor.aliases);
      for (int rank = 0; rank < ranks; ++rank) {
        char *to = all.data() + rank * piece * size;
        forEachRun(runs[rank], begin, begin + piece, [&](const Run &run) {
          found.file->read(*found.tensor, run.whole * size, run.count * size,
                           to);
          to += run.count * size;
        });
      }
    }
    communicator.reduceScatter(all.data(), mine.data(), piece * size,
                               plan::DType::UInt8);
    const char *from = mine.data();
    forEachRun(runs[communicator.rank()], begin, begin + piece,
               [&](const Run &run) {
                 std::memcpy(local + run.local * size, from, run.count * size);
                 from += run.count * size;
               });
  }
}

} // namespace fsdp

// Small facts about the plan's types that the compiler, the checker and the
// runtime must agree on.
#ifndef FSDP_PLAN_PLANTYPES_H
#define FSDP_PLAN_PLANTYPES_H

#include "Error.h"
#include "plan/DTypes.h"
#include "plan/ProgramNames.h"

#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace fsdp::plan {

/// Anything wrong with a plan or its file. Tools catch it and print what().
struct PlanError : Error {
  using Error::Error;
};

/// The version of the schema that this code writes and reads.
constexpr uint32_t planVersion = 11;
/// Every place starts at a multiple of this many bytes.
constexpr uint64_t placeAlignment = 64;
/// The arenas, by index and by name: a rank's own memory, the window through
/// which mapped gathers show all ranks' states, and the rank's host memory.
constexpr uint32_t deviceArena = 0, windowArena = 1, hostArena = 2;
constexpr const char *arenaNames[] = {"device", "window", "host"};
/// A program's streams. Commands of one stream run in order; between streams
/// only events order them.
enum Stream : uint32_t {
  computeStream,
  gatherStream,
  reduceStream,
  replicateStream, // sums over replicas
  fetchStream,
  offloadStream
};
constexpr const char *streamNames[] = {"compute",   "gather", "reduce",
                                       "replicate", "fetch",  "offload"};
/// The channel of a stream's collectives: those of one channel follow each
/// other on every rank.
enum Channel : uint32_t { gatherChannel, reduceChannel, replicateChannel };
constexpr uint32_t channelOf(uint32_t stream) {
  return stream == reduceStream      ? reduceChannel
         : stream == replicateStream ? replicateChannel
                                     : gatherChannel;
}

/// Number of elements of `shape`; nothing where a size is negative or the
/// product does not fit.
std::optional<int64_t> numElements(const std::vector<int64_t> &shape);

/// Bytes from the first to past the last element of a tensor: 0 where it has
/// none. Nothing where a size or stride is negative, the two differ in length
/// or the result does not fit.
std::optional<uint64_t> spanBytes(const std::vector<int64_t> &shape,
                                  const std::vector<int64_t> &strides,
                                  DType dtype);

/// Whether no two elements lie at one place, as far as sorted strides show:
/// each is larger than all that lies inside it.
bool areApart(const std::vector<int64_t> &shape,
              const std::vector<int64_t> &strides);

/// Strides of a row-major tensor, as PyTorch counts them (a dimension of size
/// 0 counts as 1); the largest number for those past it.
std::vector<int64_t> rowMajorStrides(const std::vector<int64_t> &shape);

/// Whether two places are the same bytes.
bool samePlace(const Place &a, const Place &b);

/// Where a value is: of a state's, where that is.
const Place &placeOf(const PlanT &plan, const ValueT &value);

/// Number of ranks: the product of the mesh's sizes.
uint64_t numRanks(const PlanT &plan);

/// The index of a program, or of a state, or -1.
int findProgram(const PlanT &plan, const std::string &name);
int findState(const PlanT &plan, const std::string &name);

/// The programs that do what `name` does, each for inputs of other shapes: that
/// one first, then its variants. Empty where there is none.
std::vector<int> findVariants(const PlanT &plan, const std::string &name);

/// The programs that a step runs in turn on one batch: `first`, then those that
/// follow. Of a line that returns to itself, more programs than there are.
std::vector<int> turnsFrom(const PlanT &plan, int first);

/// Whether a rule is one addition to its first operand, which is what it
/// updates.
bool isAddition(const RuleT &rule);

/// Whether a rule adds its second operand, the gradient, as it is to its first.
bool addsGradient(const RuleT &rule);

/// Ranks that take part in one collective: `size` of them, `stride` apart.
struct RankGroup {
  uint32_t first = 0, stride = 1, size = 1;

  /// The i-th of them.
  uint32_t operator[](uint32_t i) const { return first + i * stride; }
  /// Which of them `rank` is.
  uint32_t indexOf(uint32_t rank) const { return (rank - first) / stride; }
  bool contains(uint32_t rank) const {
    return rank >= first && (rank - first) % stride == 0 &&
           indexOf(rank) < size;
  }
  bool operator<(const RankGroup &other) const {
    return std::tie(first, stride, size) <
           std::tie(other.first, other.stride, other.size);
  }
};

/// Mesh dimensions that are neighbours.
struct MeshDims {
  uint32_t first = 0, count = 0;

  bool operator==(const MeshDims &other) const {
    return first == other.first && count == other.count;
  }
};

/// All that have a role; none where no dimension has it. The checker sees to it
/// that they are neighbours, and that one has the role of shards where there is
/// any.
MeshDims dimsOf(const PlanT &plan, AxisRole role);
/// Those that a collective is over, and whether these are the ones of a role.
MeshDims dimsOf(const CollectiveT &collective);
bool isOver(const PlanT &plan, const CollectiveT &collective, AxisRole role);
/// "replicate", "pods x hosts".
std::string formatDims(const PlanT &plan, MeshDims dims);
/// A bit for each of them that has several ranks. There are at most 2^20 ranks,
/// so that no more than 20 dimensions of a mesh have a bit.
uint32_t bitsOf(const PlanT &plan, MeshDims dims);

/// The ranks that differ from `rank` in their coordinates of these dimensions
/// at most; with `neighbours`, a divisor of their number, only as many next to
/// each other, `rank` among them. Ranks are numbered row-major, the last
/// coordinate changes fastest: so the ranks along neighbouring dimensions are
/// as far from each other as those along the last of them.
RankGroup groupOf(const PlanT &plan, MeshDims dims, uint32_t rank,
                  uint32_t neighbours = 0);
/// Those among which a collective of `rank` is.
RankGroup groupOf(const PlanT &plan, const CollectiveT &collective,
                  uint32_t rank);

/// The ranks that hold the parts of what `rank` has a part of, and how many
/// they are.
RankGroup shardGroupOf(const PlanT &plan, uint32_t rank);
uint64_t numShards(const PlanT &plan);

/// Whether the ranks of a shard run what is for `on`, which is for all where it
/// is null.
bool runsOn(const ShardRange *on, uint64_t shard);

/// "[2, 3]".
std::string formatShape(const std::vector<int64_t> &shape);

} // namespace fsdp::plan

#endif // FSDP_PLAN_PLANTYPES_H

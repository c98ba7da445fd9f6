// Small facts about the plan's types that the compiler, the checker and the
// runtime must agree on.
#ifndef FSDP_PLAN_PLANTYPES_H
#define FSDP_PLAN_PLANTYPES_H

#include "plan/plan_generated.h"

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace fsdp::plan {

/// Anything wrong with a plan or its file. Tools catch it and print what().
struct PlanError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The version of the schema that this code writes and reads.
constexpr uint32_t planVersion = 1;
/// Every place starts at a multiple of this many bytes.
constexpr uint64_t placeAlignment = 64;
/// The two arenas, by index and by name: a rank's own memory, and the window
/// through which mapped gathers show all ranks' states.
constexpr uint32_t deviceArena = 0, windowArena = 1;
constexpr const char *arenaNames[] = {"device", "window"};
/// A program's streams. Commands of one stream run in order; between streams
/// only events order them.
enum Stream : uint32_t { computeStream, gatherStream, reduceStream };
constexpr const char *streamNames[] = {"compute", "gather", "reduce"};
/// The channel of a stream's collectives: those of one channel follow each
/// other on every rank.
enum Channel : uint32_t { gatherChannel, reduceChannel };

/// Bytes of one element; 0 for a number that is no dtype.
uint64_t dtypeBytes(DType dtype);

/// PyTorch's name ("float32"); "?" for a number that is no dtype.
const char *dtypeName(DType dtype);

/// Whether the dtype is a real floating-point one.
bool isFloating(DType dtype);

/// Number of elements of `shape`; nothing where a size is negative or the
/// product does not fit.
std::optional<int64_t> numElements(const std::vector<int64_t> &shape);

/// Bytes from the first to past the last element of a tensor: 0 where it has
/// none. Nothing where a size or stride is negative, the two differ in length
/// or the result does not fit.
std::optional<uint64_t> spanBytes(const std::vector<int64_t> &shape,
                                  const std::vector<int64_t> &strides,
                                  DType dtype);

/// Strides of a row-major tensor, as PyTorch counts them (a dimension of size
/// 0 counts as 1).
std::vector<int64_t> rowMajorStrides(const std::vector<int64_t> &shape);

/// Whether two places are the same bytes.
bool samePlace(const Place &a, const Place &b);

/// Number of ranks: the product of the mesh's sizes.
uint64_t numRanks(const PlanT &plan);

/// "[2, 3]".
std::string formatShape(const std::vector<int64_t> &shape);

} // namespace fsdp::plan

#endif // FSDP_PLAN_PLANTYPES_H

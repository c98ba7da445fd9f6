// What values are made of: terms over whole tensors, each of which exists once.
#ifndef FSDP_PLAN_MEANING_TERMS_H
#define FSDP_PLAN_MEANING_TERMS_H

#include "plan/PlanTypes.h"

#include <map>
#include <memory>
#include <unordered_map>

namespace fsdp::plan {

class CheckingBudget;

/// 128 bits of a SHA-256.
struct Digest {
  uint64_t high = 0, low = 0;

  bool operator==(Digest other) const {
    return high == other.high && low == other.low;
  }
  bool operator!=(Digest other) const { return !(*this == other); }
};

/// Collects what a digest is of. Each thing has a fixed length, or its length
/// before it.
class DigestOf {
public:
  DigestOf &operator<<(uint64_t number);
  DigestOf &operator<<(double number);
  DigestOf &operator<<(const std::string &text);
  DigestOf &operator<<(const std::vector<int64_t> &numbers);
  DigestOf &operator<<(Digest digest);

  Digest get() const;

private:
  std::string bytes;
};

/// The number of a term in its table. Equal terms have equal numbers.
using Term = uint32_t;

/// Bytes [begin, end()) of a content, and where they come from: `term`, from
/// its byte `offset` on. Rank r has those that begin r * `rankStep` later,
/// where r counts all shards, or the `owners` neighbours where that is not 0.
/// Where the content repeats, each repeat has those that begin `step` later.
struct Extent {
  uint64_t begin = 0, bytes = 0;
  Term term = 0;
  uint64_t offset = 0, step = 0, rankStep = 0;
  uint32_t owners = 0;

  uint64_t end() const { return begin + bytes; }
};

/// Extents in order, without gaps.
using Extents = std::vector<Extent>;

struct TermInfo {
  enum Kind : uint8_t {
    Leaf,        // a state, an input, a call's result
    Zero,        // bytes of zero
    Cast,        // each element of `of` in another dtype
    Divided,     // each element of `of` divided by `divisor`
    Reduced,     // summed over ranks, then divided by `divisor`
    Accumulated, // added to the gradient state `state`
    Chosen,      // `before` where `condition` holds, and `of` where not
    Not,         // each truth value of `of`, the other way round
    Finite,      // whether each element of `of` is finite
    Largest,     // of each element, the largest of all ranks
    Either,      // the larger of `of` and `before`
    OverRanks,   // added up over ranks, as the step itself asks for
    Composite    // bytes of several terms, `parts`
  };
  Kind kind = Leaf;
  Digest digest;
  Term of = 0;
  DType from = DType::Float32, to = DType::Float32; // of Cast; `to`: Reduced's
  double divisor = 1;
  uint32_t dims = 0; // mesh dimensions, by bitsOf
  int state = -1;
  Term condition = 0; // of Chosen
  Term before = 0;    // of Chosen and Either
  std::shared_ptr<const Extents> parts;
  /// Why nothing can be said of it; empty where something can.
  std::shared_ptr<const std::string> unknown;
};

/// Hash-consed: a term is made once, by its digest. What is done to each
/// element alone is done to each part of a composite.
class Terms {
public:
  explicit Terms(CheckingBudget &budget);

  CheckingBudget &budget;

  const TermInfo &operator[](Term term) const { return infos[term]; }

  Term zero() const { return 0; }
  /// A term of which nothing is known but its digest. What follows from an
  /// unknown one is unknown.
  Term leaf(const DigestOf &digest, const std::vector<Term> &operands = {});
  /// The leaf of a choice among `operands`: the condition, what is taken where
  /// it holds, and what is taken where not.
  Term chosen(const DigestOf &digest, const std::vector<Term> &operands);
  /// A term that cannot be compared with the sequential step's, of what `of`
  /// says: a plan is held to that as it was made.
  Term unknown(const std::string &why, const DigestOf &of);

  Term cast(Term of, DType from, DType to);
  Term divided(Term of, double divisor);
  Term reduced(Term of, uint32_t dims, DType dtype, double divisor);
  Term accumulated(Term of, int state, const std::string &name);
  Term negated(Term of);
  /// Of a term that is no composite.
  Term finite(Term of);
  Term largest(Term of, uint32_t dims);
  /// What the step itself adds up along `dims`. Along all of `allDims`, however
  /// many these are, it is the sequential step's.
  Term overRanks(Term of, uint32_t dims, uint32_t allDims, DType dtype);
  /// The larger of two numbers.
  Term either(Term before, Term of);
  /// The parts' one term where they are all of its bytes from the first on.
  Term composite(const Extents &parts);

private:
  TermInfo infoOf(const DigestOf &digest,
                  const std::vector<Term> &operands) const;
  Term make(TermInfo info);
  /// What is done to each element of `info.of` alone: `what`, by these numbers
  /// or names. The digest is of them and of `info.of`.
  template <typename... Numbers>
  Term done(TermInfo info, const std::string &what, Numbers... numbers);
  template <typename Fn> Term each(Term composite, Fn change, double scale = 1);

  std::vector<TermInfo> infos;
  std::map<std::pair<uint64_t, uint64_t>, Term> known;
};

/// Adds an extent behind others; joined with the last where it goes on.
void append(Extents &extents, Extent extent);

/// The bytes [begin, begin + bytes) of an extent or of extents, at 0.
Extent cut(const Extent &extent, uint64_t begin, uint64_t bytes);
Extents cut(const Extents &extents, uint64_t begin, uint64_t bytes);

Digest digestOf(const Terms &terms, const Extents &extents);

} // namespace fsdp::plan

#endif // FSDP_PLAN_MEANING_TERMS_H

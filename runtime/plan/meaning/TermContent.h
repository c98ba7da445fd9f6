// Which bytes of which terms a value's bytes are.
#ifndef FSDP_PLAN_MEANING_TERMCONTENT_H
#define FSDP_PLAN_MEANING_TERMCONTENT_H

#include "plan/check/CheckingBudget.h"
#include "plan/meaning/Terms.h"

namespace fsdp::plan {

/// The bytes of a value on a rank: `repeats` runs of `period` bytes each, in
/// which the extents' bytes move by their `step`. So a bucket that holds a
/// piece for each of 16,384 ranks has no more extents than members. Extents are
/// kept by where they begin; bytes that nobody wrote have none.
class Content {
public:
  explicit Content(uint64_t bytes = 0) : period(bytes) {}
  Content(uint64_t bytes, const Extents &extents) : Content(bytes) {
    for (const Extent &extent : extents)
      write(extent);
  }

  uint64_t bytes() const { return repeats * period; }

  /// The extents of [begin, begin + bytes), at 0, of one repeat or of bytes
  /// that do not move between repeats; what is not there is an unknown term.
  Extents read(Terms &terms, uint64_t begin, uint64_t bytes) const;
  /// The same, with composites as their parts.
  Extents resolve(Terms &terms, uint64_t begin, uint64_t bytes) const;
  /// Over what was there. The content has one repeat.
  void write(const Extent &extent);

  /// Blocks of `bytes` from `begin` on, `stride` apart, as extents of one
  /// block; their step is from one block to the next.
  Extents readBlocks(Terms &terms, uint64_t begin, uint64_t bytes,
                     uint64_t blocks, uint64_t stride) const;
  /// Writes such blocks.
  void writeBlocks(Terms &terms, const Extents &block, uint64_t begin,
                   uint64_t bytes, uint64_t blocks, uint64_t stride);

  /// Of [begin, begin + owners * bytes), cut into as many equal parts, a rank's
  /// own.
  Content kept(Terms &terms, uint64_t begin, uint64_t bytes,
               uint32_t owners) const;
  /// What each of `ranks` has, one behind the other.
  Content gathered(Terms &terms, uint32_t ranks, uint32_t owners) const;
  /// A rank's part of the sum over `ranks`; `change`: what the sum is of a
  /// term.
  template <typename Fn>
  Content scattered(Terms &terms, uint32_t ranks, Fn change) const {
    Content part(bytes() / ranks);
    if (repeats == ranks && ranks > 1) {
      terms.budget.keep(extents.size());
      for (const auto &[begin, extent] : extents) {
        Extent own = extent;
        own.term = change(extent.term);
        own.rankStep = extent.term ? extent.step : 0;
        own.step = 0;
        part.write(own);
      }
      return part;
    }
    Extent own{0, part.bytes(), change(whole(terms)), 0};
    own.rankStep = ranks > 1 ? part.bytes() : 0;
    part.write(own);
    return part;
  }

  /// All of it as one term.
  Term whole(Terms &terms) const;

private:
  void forget(Terms &terms, const char *why, const DigestOf &of);
  /// Of all its extents.
  DigestOf digest(Terms &terms) const;

  std::map<uint64_t, Extent> extents; // by begin
  uint64_t repeats = 1, period = 0;
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_MEANING_TERMCONTENT_H

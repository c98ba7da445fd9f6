#include "plan/meaning/UpdateSkips.h"

using namespace fsdp::plan;

std::optional<UpdateSkip> fsdp::plan::skipOf(const Terms &terms, Term number) {
  if (terms[number].kind != TermInfo::Cast || terms[number].from != DType::Bool)
    return std::nullopt;
  UpdateSkip skip;
  Term of = terms[number].of;
  bool isEither = terms[of].kind == TermInfo::Either;
  Term overflow = isEither ? terms[of].before : of;
  if (terms[overflow].kind == TermInfo::Not &&
      terms[terms[overflow].of].kind == TermInfo::Finite) {
    skip.overflow = overflow;
    if (!isEither)
      return skip;
    of = terms[of].of;
  }
  // "Not the largest of all ranks' not" holds where the term does on all ranks,
  // and what micro-batches add up in a state is the largest of theirs.
  for (;; of = terms[of].of) {
    const TermInfo &info = terms[of];
    if (info.kind == TermInfo::Not) {
      skip.isNot = !skip.isNot;
    } else if (info.kind == TermInfo::Largest) {
      skip.dims |= info.dims;
      skip.isWhereAll &= skip.isNot;
    } else if (info.kind == TermInfo::Accumulated && !skip.isAccumulated) {
      skip.isAccumulated = true;
      skip.isWhereAll &= skip.isNot;
    } else {
      skip.captured = of;
      return skip;
    }
  }
}

#include "plan/meaning/Terms.h"

#include "plan/Sha256.h"
#include "plan/check/CheckingBudget.h"

#include <algorithm>
#include <cstring>

using namespace fsdp::plan;

DigestOf &DigestOf::operator<<(uint64_t number) {
  for (int i = 0; i < 8; ++i)
    bytes.push_back(static_cast<char>(number >> 8 * i));
  return *this;
}

DigestOf &DigestOf::operator<<(double number) {
  uint64_t bits;
  std::memcpy(&bits, &number, sizeof(bits));
  return *this << bits;
}

DigestOf &DigestOf::operator<<(const std::string &text) {
  *this << uint64_t(text.size());
  bytes += text;
  return *this;
}

DigestOf &DigestOf::operator<<(const std::vector<int64_t> &numbers) {
  *this << uint64_t(numbers.size());
  for (int64_t number : numbers)
    *this << static_cast<uint64_t>(number);
  return *this;
}

DigestOf &DigestOf::operator<<(Digest digest) {
  return *this << digest.high << digest.low;
}

Digest DigestOf::get() const {
  std::string sum = sha256(bytes);
  auto read = [&](size_t at) {
    uint64_t number = 0;
    for (size_t i = at; i < at + 8; ++i)
      number = number << 8 | static_cast<uint8_t>(sum[i]);
    return number;
  };
  return {read(0), read(8)};
}

void fsdp::plan::append(Extents &extents, Extent extent) {
  if (!extent.bytes)
    return;
  if (!extents.empty()) {
    Extent &last = extents.back();
    bool goesOn = last.term == extent.term && last.end() == extent.begin &&
                  last.step == extent.step &&
                  last.rankStep == extent.rankStep &&
                  last.owners == extent.owners;
    // Zeros are all alike.
    if (goesOn && (last.offset + last.bytes == extent.offset || !extent.term)) {
      last.bytes += extent.bytes;
      return;
    }
  }
  extents.push_back(extent);
}

Extent fsdp::plan::cut(const Extent &extent, uint64_t begin, uint64_t bytes) {
  Extent part = extent;
  uint64_t first = std::max(begin, extent.begin);
  part.bytes = std::min(begin + bytes, extent.end()) - first;
  part.offset += extent.term ? first - extent.begin : 0;
  part.begin = first - begin;
  return part;
}

Extents fsdp::plan::cut(const Extents &extents, uint64_t begin,
                        uint64_t bytes) {
  Extents parts;
  auto it = std::partition_point(
      extents.begin(), extents.end(),
      [&](const Extent &extent) { return extent.end() <= begin; });
  for (; it != extents.end() && it->begin < begin + bytes; ++it)
    append(parts, cut(*it, begin, bytes));
  return parts;
}

Digest fsdp::plan::digestOf(const Terms &terms, const Extents &extents) {
  DigestOf digest;
  for (const Extent &extent : extents)
    digest << extent.begin << extent.bytes << terms[extent.term].digest
           << extent.offset << extent.step << extent.rankStep
           << uint64_t(extent.owners);
  return digest.get();
}

Terms::Terms(CheckingBudget &budget) : budget(budget) {
  TermInfo zeros;
  zeros.kind = TermInfo::Zero;
  zeros.digest = (DigestOf() << std::string("zero")).get();
  make(std::move(zeros));
}

Term Terms::make(TermInfo info) {
  auto key = std::make_pair(info.digest.high, info.digest.low);
  auto [it, isNew] = known.emplace(key, infos.size());
  if (isNew)
    infos.push_back(std::move(info));
  return it->second;
}

template <typename... Numbers>
Term Terms::done(TermInfo info, const std::string &what, Numbers... numbers) {
  DigestOf digest;
  digest << what << infos[info.of].digest;
  (digest << ... << numbers);
  info.digest = digest.get();
  info.unknown = infos[info.of].unknown;
  return make(std::move(info));
}

TermInfo Terms::infoOf(const DigestOf &digest,
                       const std::vector<Term> &operands) const {
  TermInfo info;
  info.digest = digest.get();
  for (Term operand : operands)
    if (!info.unknown)
      info.unknown = infos[operand].unknown;
  return info;
}

Term Terms::leaf(const DigestOf &digest, const std::vector<Term> &operands) {
  return make(infoOf(digest, operands));
}

Term Terms::chosen(const DigestOf &digest, const std::vector<Term> &operands) {
  TermInfo info = infoOf(digest, operands);
  info.kind = TermInfo::Chosen;
  info.condition = operands[0];
  info.before = operands[1];
  info.of = operands[2];
  return make(std::move(info));
}

Term Terms::unknown(const std::string &why, const DigestOf &of) {
  TermInfo info;
  info.digest = (DigestOf() << std::string("unknown") << why << of.get()).get();
  info.unknown = std::make_shared<const std::string>(why);
  return make(std::move(info));
}

/// Does to each part of a composite what is done to each of its elements;
/// `scale`: of the elements' size.
template <typename Fn> Term Terms::each(Term whole, Fn change, double scale) {
  auto scaled = [&](uint64_t bytes) {
    return static_cast<uint64_t>(bytes * scale);
  };
  Extents parts;
  std::shared_ptr<const Extents> old = infos[whole].parts;
  for (Extent part : *old) {
    part.term = change(part.term);
    part.begin = scaled(part.begin);
    part.bytes = scaled(part.bytes);
    part.offset = scaled(part.offset);
    append(parts, part);
  }
  return composite(parts);
}

static bool holds(DType wide, DType narrow) {
  return wide == narrow || wide == DType::Float64 || narrow == DType::Bool ||
         (wide == DType::Float32 &&
          (narrow == DType::Float16 || narrow == DType::BFloat16));
}

Term Terms::cast(Term of, DType from, DType to) {
  if (from == to || of == zero())
    return of;
  if (infos[of].kind == TermInfo::Composite)
    return each(
        of, [&](Term part) { return cast(part, from, to); },
        double(dtypeBytes(to)) / dtypeBytes(from));
  if (infos[of].kind == TermInfo::Cast && infos[of].from == to &&
      holds(from, to))
    return infos[of].of;
  TermInfo info{TermInfo::Cast, {}, of};
  info.from = from;
  info.to = to;
  return done(std::move(info), "cast", uint64_t(from), uint64_t(to));
}

Term Terms::divided(Term of, double divisor) {
  if (divisor == 1 || of == zero())
    return of;
  if (infos[of].kind == TermInfo::Composite)
    return each(of, [&](Term part) { return divided(part, divisor); });
  TermInfo info{TermInfo::Divided, {}, of};
  info.divisor = divisor;
  return done(std::move(info), "divided", divisor);
}

Term Terms::reduced(Term of, uint32_t dims, DType dtype, double divisor) {
  if (of == zero() || (!dims && divisor == 1))
    return of;
  if (infos[of].kind == TermInfo::Composite)
    return each(of,
                [&](Term part) { return reduced(part, dims, dtype, divisor); });
  TermInfo info{TermInfo::Reduced, {}, of};
  info.dims = dims;
  info.to = dtype;
  info.divisor = divisor;
  if (infos[of].kind == TermInfo::Reduced && !(infos[of].dims & dims)) {
    info.dims |= infos[of].dims;
    info.divisor *= infos[of].divisor;
    info.of = infos[of].of;
  }
  uint64_t along = info.dims;
  double by = info.divisor;
  return done(std::move(info), "reduced", along, uint64_t(dtype), by);
}

Term Terms::accumulated(Term of, int state, const std::string &name) {
  if (of == zero())
    return of;
  if (infos[of].kind == TermInfo::Composite)
    return each(of, [&](Term part) { return accumulated(part, state, name); });
  TermInfo info{TermInfo::Accumulated, {}, of};
  info.state = state;
  return done(std::move(info), "accumulated", name);
}

// What is made on each rank alone has no mesh dimensions to go along.
static constexpr uint64_t noDims = 0;

Term Terms::negated(Term of) {
  if (infos[of].kind == TermInfo::Composite)
    return each(of, [&](Term part) { return negated(part); });
  if (infos[of].kind == TermInfo::Not)
    return infos[of].of;
  return done({TermInfo::Not, {}, of}, "not", noDims);
}

Term Terms::finite(Term of) {
  return done({TermInfo::Finite, {}, of}, "finite", noDims);
}

Term Terms::largest(Term of, uint32_t dims) {
  if (of == zero() || !dims)
    return of;
  if (infos[of].kind == TermInfo::Composite)
    return each(of, [&](Term part) { return largest(part, dims); });
  // Of numbers that say whether something holds, it says whether that holds
  // anywhere.
  if (const TermInfo info = infos[of];
      info.kind == TermInfo::Cast && info.from == DType::Bool)
    return cast(largest(info.of, dims), info.from, info.to);
  if (infos[of].kind == TermInfo::Largest && !(infos[of].dims & dims)) {
    dims |= infos[of].dims;
    of = infos[of].of;
  }
  TermInfo info{TermInfo::Largest, {}, of};
  info.dims = dims;
  return done(std::move(info), "largest", uint64_t(dims));
}

Term Terms::overRanks(Term of, uint32_t dims, uint32_t allDims, DType dtype) {
  if (infos[of].kind == TermInfo::Composite)
    return each(
        of, [&](Term part) { return overRanks(part, dims, allDims, dtype); });
  if (infos[of].kind == TermInfo::OverRanks && infos[of].dims != allDims &&
      !(infos[of].dims & dims)) {
    dims |= infos[of].dims;
    of = infos[of].of;
  }
  TermInfo info{TermInfo::OverRanks, {}, of};
  info.dims = dims;
  uint64_t missing = allDims & ~dims;
  return done(std::move(info), "over ranks", missing, uint64_t(dtype));
}

Term Terms::either(Term before, Term of) {
  TermInfo info = infoOf(DigestOf() << std::string("either")
                                    << infos[before].digest << infos[of].digest,
                         {before, of});
  info.kind = TermInfo::Either;
  info.before = before;
  info.of = of;
  return make(std::move(info));
}

Term Terms::composite(const Extents &parts) {
  // What is all of one term may be that term: its bytes say how many there are.
  if (parts.size() == 1 && !parts[0].begin && !parts[0].offset &&
      !parts[0].rankStep && !parts[0].step)
    return parts[0].term;
  budget.keep(parts.size());
  TermInfo info;
  info.kind = TermInfo::Composite;
  info.digest =
      (DigestOf() << std::string("parts") << digestOf(*this, parts)).get();
  for (const Extent &part : parts)
    if (!info.unknown)
      info.unknown = infos[part.term].unknown;
  info.parts = std::make_shared<const Extents>(parts);
  return make(std::move(info));
}

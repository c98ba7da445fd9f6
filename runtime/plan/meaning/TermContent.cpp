#include "plan/meaning/TermContent.h"

#include <algorithm>

using namespace fsdp::plan;

static Extents unknownBytes(Terms &terms, uint64_t bytes, const char *why,
                            const DigestOf &of) {
  Extents extents;
  append(extents, {0, bytes, terms.unknown(why, of)});
  return extents;
}

static const char unwritten[] = "it reads bytes that nobody wrote";

Extents Content::read(Terms &terms, uint64_t begin, uint64_t bytes) const {
  uint64_t repeat = 0;
  if (repeats > 1) {
    repeat = period ? begin / period : 0;
    begin -= repeat * period;
    if (begin + bytes > period)
      return unknownBytes(terms, bytes,
                          "it reads several ranks' pieces at once",
                          digest(terms) << repeat << begin);
  }
  Extents found;
  uint64_t next = begin;
  auto it = extents.upper_bound(begin);
  if (it != extents.begin() && std::prev(it)->second.end() > begin)
    --it;
  for (; it != extents.end() && it->first < begin + bytes; ++it) {
    terms.budget.look();
    Extent part = cut(it->second, begin, bytes);
    if (begin + part.begin > next)
      append(found, {next - begin, begin + part.begin - next,
                     terms.unknown(unwritten, DigestOf())});
    part.offset += part.term ? repeat * part.step : 0;
    part.step = 0;
    next = begin + part.end();
    append(found, part);
  }
  if (next < begin + bytes)
    append(found, {next - begin, begin + bytes - next,
                   terms.unknown(unwritten, DigestOf())});
  return found;
}

/// The parts of a composite in place of it, where each rank has the same.
static void resolve(Terms &terms, const Extent &extent, Extents &found) {
  const TermInfo &info = terms[extent.term];
  if (info.kind != TermInfo::Composite || extent.rankStep || extent.step) {
    append(found, extent);
    return;
  }
  for (Extent part : cut(*info.parts, extent.offset, extent.bytes)) {
    terms.budget.look();
    part.begin += extent.begin;
    append(found, part);
  }
}

Extents Content::resolve(Terms &terms, uint64_t begin, uint64_t bytes) const {
  Extents found;
  for (const Extent &extent : read(terms, begin, bytes))
    ::resolve(terms, extent, found);
  return found;
}

void Content::write(const Extent &extent) {
  if (!extent.bytes)
    return;
  auto it = extents.lower_bound(extent.begin);
  if (it != extents.begin() && std::prev(it)->second.end() > extent.begin)
    --it;
  while (it != extents.end() && it->first < extent.end()) {
    Extent old = it->second;
    it = extents.erase(it);
    auto keep = [&](uint64_t begin, uint64_t end) {
      if (begin >= end)
        return;
      Extent part = cut(old, begin, end - begin);
      part.begin = begin;
      extents[begin] = part;
    };
    keep(old.begin, std::min(old.end(), extent.begin));
    keep(std::max(old.begin, extent.end()), old.end());
    it = extents.lower_bound(extent.end());
  }
  extents[extent.begin] = extent;
}

void Content::forget(Terms &terms, const char *why, const DigestOf &of) {
  period = bytes();
  repeats = 1;
  extents.clear();
  write({0, period, terms.unknown(why, of)});
}

DigestOf Content::digest(Terms &terms) const {
  terms.budget.look(extents.size());
  DigestOf digest;
  digest << period << repeats;
  for (const auto &[begin, extent] : extents)
    digest << digestOf(terms, {extent});
  return digest;
}

Extents Content::readBlocks(Terms &terms, uint64_t begin, uint64_t bytes,
                            uint64_t blocks, uint64_t stride) const {
  if (blocks == 1)
    return read(terms, begin, bytes);
  if (repeats == blocks && stride == period && begin + bytes <= period) {
    Extents block;
    terms.budget.look(extents.size());
    for (auto it = extents.begin(); it != extents.end(); ++it) {
      const Extent &extent = it->second;
      if (extent.end() > begin && extent.begin < begin + bytes)
        append(block, cut(extent, begin, bytes));
    }
    return block;
  }
  Extents all = read(terms, begin, (blocks - 1) * stride + bytes);
  if (all.size() != 1)
    return unknownBytes(terms, bytes, "it copies blocks of several values",
                        DigestOf() << digestOf(terms, all) << blocks << stride);
  Extent block = all.front();
  block.bytes = bytes;
  block.step = block.term ? stride : 0;
  return {block};
}

void Content::writeBlocks(Terms &terms, const Extents &block, uint64_t begin,
                          uint64_t bytes, uint64_t blocks, uint64_t stride) {
  auto isWhole = [&](const Extent &extent) {
    return !extent.begin && extent.bytes == bytes &&
           (!extent.term || extent.step == bytes);
  };
  bool goesOn = blocks == 1 || (stride == bytes && block.size() == 1 &&
                                isWhole(block.front()));
  if (repeats == 1 && goesOn) {
    for (Extent extent : block) {
      extent.begin += begin;
      extent.bytes *= blocks;
      extent.step = 0;
      write(extent);
    }
    return;
  }
  if (repeats == 1 && extents.empty() && blocks > 1 &&
      blocks * stride == period) {
    repeats = blocks;
    period = stride;
  }
  if (repeats != blocks || period != stride || begin + bytes > period)
    return forget(terms, "it is written in blocks of several sizes",
                  digest(terms) << digestOf(terms, block) << begin << bytes
                                << blocks << stride);
  for (Extent extent : block) {
    extent.begin += begin;
    write(extent);
  }
}

Content Content::kept(Terms &terms, uint64_t begin, uint64_t bytes,
                      uint32_t owners) const {
  Content own(bytes);
  if (repeats == 1) {
    Extents all = read(terms, begin, owners * bytes);
    for (Extent &extent : all) {
      if (all.size() != 1 || extent.rankStep)
        extent.term = terms.unknown("it keeps a part of several values",
                                    DigestOf() << digestOf(terms, {extent}));
      extent.bytes = bytes;
      extent.rankStep = extent.term ? bytes : 0;
      extent.owners = owners;
    }
    own.write(all.front());
    return own;
  }
  if (begin || owners * bytes != this->bytes() || repeats % owners) {
    own.forget(terms, "it keeps a part of several ranks' pieces",
               digest(terms) << begin);
    return own;
  }
  terms.budget.keep(extents.size());
  own.repeats = repeats / owners;
  own.period = period;
  for (auto [at, extent] : extents) {
    extent.rankStep = own.repeats * extent.step;
    extent.owners = extent.step ? owners : 0;
    extent.step = own.repeats > 1 ? extent.step : 0;
    own.extents[at] = extent;
  }
  return own;
}

Content Content::gathered(Terms &terms, uint32_t ranks, uint32_t owners) const {
  Content all(ranks * bytes());
  Extents block;
  terms.budget.keep(extents.size());
  for (auto [begin, extent] : extents) {
    bool goesOn = repeats == 1 || extent.rankStep == repeats * extent.step;
    if ((extent.rankStep && extent.owners != owners) || !goesOn)
      extent.term = terms.unknown("it gathers other ranks' parts",
                                  DigestOf() << digestOf(terms, {extent}));
    if (repeats == 1)
      extent.step = extent.rankStep;
    extent.rankStep = extent.owners = 0;
    append(block, extent);
  }
  all.writeBlocks(terms, block, 0, period, ranks * repeats, period);
  return all;
}

Term Content::whole(Terms &terms) const {
  if (repeats != 1)
    return terms.unknown("it takes several ranks' pieces for one value",
                         digest(terms));
  Extents parts = resolve(terms, 0, period);
  for (const Extent &part : parts)
    if (part.rankStep)
      return terms.unknown("it takes a rank's part for a whole value",
                           DigestOf() << digestOf(terms, parts));
  return terms.composite(parts);
}

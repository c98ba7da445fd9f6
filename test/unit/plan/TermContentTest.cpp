// Tests that what ranks exchange is followed as whole tensors: what was cut
// comes together again, and what is mixed does not.
#include "plan/meaning/TermContent.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;

namespace {

constexpr uint32_t ranks = 16384;

const PlanT plan;
CheckingBudget budget(plan);

Term named(Terms &terms, const char *name) {
  return terms.leaf(DigestOf() << std::string(name));
}

/// A rank's `bytes` of a term that is cut into equal parts.
Extent part(Term term, uint64_t begin, uint64_t bytes) {
  Extent own{begin, bytes, term};
  own.rankStep = bytes;
  return own;
}

/// A bucket with a part of each of two terms.
Content bucket(Term a, Term b) {
  return Content(96, {part(a, 0, 64), part(b, 64, 32)});
}

TEST(TermContent, GathersWhatWasCut) {
  Terms terms(budget);
  Term a = named(terms, "a"), b = named(terms, "b");
  Content all = bucket(a, b).gathered(terms, ranks, 0);
  EXPECT_EQ(all.bytes(), 96u * ranks);
  Content out(32 * ranks);
  out.writeBlocks(terms, all.readBlocks(terms, 64, 32, ranks, 96), 0, 32, ranks,
                  32);
  Extents found = out.resolve(terms, 0, 32 * ranks);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].term, b);
  EXPECT_EQ(found[0].offset, 0u);
  EXPECT_EQ(found[0].rankStep, 0u);
}

TEST(TermContent, ScattersIntoParts) {
  Terms terms(budget);
  Term a = named(terms, "a"), b = named(terms, "b");
  Content whole(96 * ranks);
  for (auto [term, begin, bytes] :
       {std::tuple(a, 0, 64), std::tuple(b, 64, 32)}) {
    Extent block{0, uint64_t(bytes), term};
    block.step = bytes;
    whole.writeBlocks(terms, {block}, begin, bytes, ranks, 96);
  }
  auto sum = [&](Term term) {
    return terms.reduced(term, 1, DType::Float32, ranks);
  };
  Extents own = whole.scattered(terms, ranks, sum).read(terms, 64, 32);
  ASSERT_EQ(own.size(), 1u);
  EXPECT_EQ(terms[own[0].term].of, b);
  EXPECT_EQ(own[0].rankStep, 32u);
}

TEST(TermContent, ScattersFlatBuffersThroughTheirMembers) {
  Terms terms(budget);
  Term a = named(terms, "a"), b = named(terms, "b");
  Content flat(64, {{0, 20, a}, {20, 40, b}, {60, 4, terms.zero()}});
  Content own = flat.scattered(terms, 4, [&](Term term) {
    return terms.reduced(term, 1, DType::Float32, 4);
  });
  Extents all = own.gathered(terms, 4, 0).resolve(terms, 20, 40);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(terms[all[0].term].of, b);
  EXPECT_EQ(all[0].offset, 0u);
}

TEST(TermContent, KeepsPartsAmongNeighbours) {
  Terms terms(budget);
  Term a = named(terms, "a"), b = named(terms, "b");
  Content all = bucket(a, b).gathered(terms, 8, 0);
  Content kept = all.kept(terms, 0, 4 * 96, 2);
  Extents found = kept.gathered(terms, 2, 2).readBlocks(terms, 0, 64, 8, 96);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].term, a);
  EXPECT_EQ(found[0].step, 64u);
  // Of other neighbours it is not that.
  found = kept.gathered(terms, 4, 4).readBlocks(terms, 0, 64, 16, 96);
  EXPECT_TRUE(terms[found[0].term].unknown);
}

TEST(TermContent, WritesOverAndBeside) {
  Terms terms(budget);
  Term a = named(terms, "a"), b = named(terms, "b");
  Content content(32);
  content.write({0, 24, a});
  content.write({8, 8, b});
  Extents found = content.read(terms, 4, 28);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].bytes, 4u);
  EXPECT_EQ(found[0].offset, 4u);
  EXPECT_EQ(found[1].term, b);
  EXPECT_EQ(found[2].term, a);
  EXPECT_EQ(found[2].offset, 16u);
  EXPECT_TRUE(terms[found[3].term].unknown) << "nobody wrote these bytes";
}

TEST(Terms, SumsAndCastsOfACompositeAreOfItsParts) {
  Terms terms(budget);
  Term a = named(terms, "a"), b = named(terms, "b");
  Term both = terms.composite({{0, 8, a}, {8, 8, b}});
  Term cast = terms.cast(both, DType::Float32, DType::BFloat16);
  const Extents &parts = *terms[cast].parts;
  EXPECT_EQ(parts[1].begin, 4u);
  EXPECT_EQ(parts[1].term, terms.cast(b, DType::Float32, DType::BFloat16));
  EXPECT_EQ(terms.cast(cast, DType::BFloat16, DType::Float32) == both, false)
      << "bfloat16 has lost something";
  // One sum over both dimensions, divided once by both.
  Term sum = terms.reduced(terms.reduced(a, 1, DType::Float32, 2), 2,
                           DType::Float32, 4);
  EXPECT_EQ(terms[sum].dims, 3u);
  EXPECT_EQ(terms[sum].divisor, 8);
  EXPECT_EQ(terms[sum].of, a);
  EXPECT_NE(terms.reduced(a, 3, DType::Float32, 4), sum);
}

TEST(Terms, WhatFollowsFromTheUnknownIsUnknown) {
  Terms terms(budget);
  Term of = terms.unknown("why", DigestOf());
  EXPECT_EQ(*terms[terms.divided(of, 2)].unknown, "why");
  EXPECT_EQ(*terms[terms.leaf(DigestOf() << 1.0, {of})].unknown, "why");
}

} // namespace

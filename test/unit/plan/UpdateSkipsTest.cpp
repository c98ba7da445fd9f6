// Tests that leaving an update out on all ranks, in all micro-batches, is known
// from leaving it out on some.
#include "plan/meaning/UpdateSkips.h"
#include "plan/check/CheckingBudget.h"

#include <gtest/gtest.h>

using namespace fsdp::plan;

namespace {

const PlanT plan;
CheckingBudget budget(plan);

struct UpdateSkips : testing::Test {
  Terms terms{budget};
  Term has = terms.leaf(DigestOf() << std::string("has a gradient"));

  std::optional<UpdateSkip> skipOn(Term truth) {
    return skipOf(terms, terms.cast(truth, DType::Bool, DType::Float32));
  }
};

TEST_F(UpdateSkips, WhereNoRankAndNoMicroBatchHasAGradient) {
  Term soFar = terms.accumulated(has, 0, "given");
  auto skip = skipOn(terms.negated(terms.largest(soFar, 0b11)));
  EXPECT_EQ(skip->captured, has);
  EXPECT_TRUE(skip->isNot && skip->isWhereAll && skip->isAccumulated);
  EXPECT_EQ(skip->dims, 0b11u);
}

TEST_F(UpdateSkips, WhereARankHasNoneIsAnother) {
  auto skip = skipOn(terms.largest(terms.negated(has), 0b1));
  EXPECT_EQ(skip->captured, has);
  EXPECT_FALSE(skip->isWhereAll);
}

TEST_F(UpdateSkips, GradientsThatAreNotFiniteAreBesides) {
  Term overflow = terms.negated(terms.finite(terms.leaf(DigestOf())));
  EXPECT_EQ(skipOn(overflow)->captured, std::nullopt);
  auto skip = skipOn(terms.either(overflow, terms.negated(has)));
  EXPECT_EQ(skip->overflow, overflow);
  EXPECT_EQ(skip->captured, has);
}

TEST_F(UpdateSkips, AnotherNumberSaysNothing) {
  EXPECT_FALSE(skipOf(terms, has));
}

} // namespace

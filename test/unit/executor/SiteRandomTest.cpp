// Tests that what is recomputed draws the numbers of the first time, whatever
// was drawn in between.
#include "executor/SiteRandom.h"

#include "TensorFunctions.h"
#include "executor/HostBackend.h"

#include <gtest/gtest.h>

using namespace fsdp;

static at::Tensor draw(SiteRandom &random, int64_t site) {
  random.enterSite(site);
  // Normal numbers come in pairs: of an odd count, one is left over.
  at::Tensor numbers = at::empty({3}).normal_(0, 1, random.generator());
  random.leaveSite();
  return numbers;
}

TEST(SiteRandom, ARepeatedSiteRepeatsItsNumbers) {
  for (bool sequential : {false, true}) {
    SiteRandom random(/*seed=*/5, /*rank=*/0, sequential, hostKernels());
    random.beginStep(1, /*microBatch=*/0);
    at::Tensor first = draw(random, 0), second = draw(random, 1);
    EXPECT_FALSE(at::equal(first, second));
    EXPECT_TRUE(at::equal(draw(random, 0), first));
    EXPECT_TRUE(at::equal(draw(random, 1), second));
    EXPECT_TRUE(at::equal(draw(random, 0), first));
    random.beginStep(1, /*microBatch=*/1);
    EXPECT_FALSE(at::equal(draw(random, 0), first));
    random.beginStep(2, /*microBatch=*/0);
    EXPECT_FALSE(at::equal(draw(random, 0), first));
  }
}

TEST(SiteRandom, InSequenceARepetitionTakesNothingFromTheStream) {
  SiteRandom plain(5, 0, true, hostKernels()),
      repeating(5, 0, true, hostKernels());
  plain.beginStep(1, /*microBatch=*/0);
  repeating.beginStep(1, /*microBatch=*/0);
  for (int64_t site = 0; site < 4; ++site) {
    EXPECT_TRUE(at::equal(draw(plain, site), draw(repeating, site)));
    draw(repeating, site / 2);
  }
}

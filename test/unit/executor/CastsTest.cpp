// Tests that casts are one launch only where that changes no bit.
#include "executor/Casts.h"

#include "TensorFunctions.h"

#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

using namespace fsdp;

namespace {

Cast castOf(const at::Tensor &from, at::ScalarType to) {
  return {from, at::empty_like(from, from.options().dtype(to))};
}

} // namespace

TEST(Casts, HaveTheBitsOfEachAlone) {
  std::vector<Cast> all;
  for (int64_t size : {1, 7, 1000})
    all.push_back(castOf(at::randn({size, 3}), at::kBFloat16));
  Casts casts(all[0]);
  for (size_t i = 1; i < all.size(); ++i) {
    ASSERT_TRUE(casts.canJoin(all[i]));
    casts.join(all[i]);
  }
  casts.run();
  for (const Cast &cast : all)
    EXPECT_TRUE(at::equal(cast.to, cast.from.to(at::kBFloat16)));
}

TEST(Casts, OthersStayApart) {
  at::Tensor matrix = at::randn({4, 6});
  Casts casts(castOf(matrix, at::kBFloat16));
  EXPECT_FALSE(casts.canJoin(castOf(matrix, at::kHalf)));
  EXPECT_FALSE(casts.canJoin(castOf(matrix.to(at::kDouble), at::kBFloat16)));
  EXPECT_FALSE(
      casts.canJoin({at::randn({6, 4}).t(), at::empty({4, 6}, at::kBFloat16)}));
  EXPECT_FALSE(
      casts.canJoin(castOf(at::randn({2, 8}).slice(1, 0, 3), at::kBFloat16)));
}

/// What one writes may be memory that the one before it reads for the last
/// time.
TEST(Casts, SharedMemoryKeepsTheirOrder) {
  at::Tensor memory = at::randn({64});
  at::Tensor first = memory.narrow(0, 0, 16), second = memory.narrow(0, 32, 16);
  at::Tensor halves = memory.view(at::kBFloat16);
  Casts casts({first, halves.narrow(0, 96, 16)});
  EXPECT_TRUE(casts.canJoin({second, halves.narrow(0, 112, 16)}));
  EXPECT_FALSE(casts.canJoin({second, halves.narrow(0, 16, 16)}));
  EXPECT_FALSE(casts.canJoin({second, halves.narrow(0, 104, 16)}));
  EXPECT_FALSE(
      casts.canJoin({memory.narrow(0, 40, 16), halves.narrow(0, 112, 16)}));
}

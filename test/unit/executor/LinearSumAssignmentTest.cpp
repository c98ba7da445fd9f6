// Tests that assignments are the cheapest of all that there are, and that equal
// ones are chosen between as SciPy does.
#include "TensorFunctions.h"
#include "operators/Operators.h"

#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

using namespace fsdp;

static at::Tensor matrix(const std::vector<std::vector<double>> &rows) {
  at::Tensor out = at::empty(
      {int64_t(rows.size()), int64_t(rows.front().size())}, at::kDouble);
  for (size_t i = 0; i < rows.size(); ++i)
    for (size_t j = 0; j < rows[i].size(); ++j)
      out[int64_t(i)][int64_t(j)] = rows[i][j];
  return out;
}

static double costOf(const at::Tensor &cost, bool maximize = false) {
  auto [rows, columns] = linearSumAssignment(cost, maximize);
  double sum = 0;
  for (int64_t k = 0; k < rows.size(0); ++k)
    sum += cost[rows[k].item<int64_t>()][columns[k].item<int64_t>()]
               .item<double>();
  return sum;
}

/// Of all ways to give each row of a matrix that is not tall another column.
static double least(const at::Tensor &cost) {
  std::vector<int64_t> columns(cost.size(1));
  std::iota(columns.begin(), columns.end(), int64_t(0));
  double best = INFINITY;
  do {
    double sum = 0;
    for (int64_t row = 0; row < cost.size(0); ++row)
      sum += cost[row][columns[row]].item<double>();
    best = std::min(best, sum);
  } while (std::next_permutation(columns.begin(), columns.end()));
  return best;
}

TEST(LinearSumAssignment, IsTheCheapest) {
  for (int64_t rows = 1; rows <= 4; ++rows)
    for (int64_t seed = 1; seed <= 3; ++seed) {
      at::Tensor cost =
          at::sin(at::arange(rows * 5, at::kDouble) * double(7 * seed + rows))
              .view({rows, 5});
      EXPECT_NEAR(costOf(cost), least(cost), 1e-12);
      EXPECT_NEAR(costOf(cost.t()), least(cost), 1e-12);
      EXPECT_NEAR(costOf(cost, /*maximize=*/true), -least(-cost), 1e-12);
    }
}

TEST(LinearSumAssignment, OfEqualCostsIsTheIdentity) {
  auto [rows, columns] = linearSumAssignment(at::ones({3, 5}), false);
  EXPECT_TRUE(at::equal(rows, at::arange(3, at::kLong)));
  EXPECT_TRUE(at::equal(columns, at::arange(3, at::kLong)));
}

TEST(LinearSumAssignment, RowsOfATallMatrixAreInOrder) {
  auto [rows, columns] =
      linearSumAssignment(matrix({{9, 9}, {9, 1}, {9, 9}, {1, 9}}), false);
  EXPECT_TRUE(at::equal(rows, at::arange(1, 4, 2, at::kLong)));
  EXPECT_TRUE(at::equal(columns, 1 - at::arange(2, at::kLong)));
}

TEST(LinearSumAssignment, OfNothingIsNothing) {
  for (at::IntArrayRef shape : {at::IntArrayRef{0, 3}, at::IntArrayRef{3, 0}}) {
    auto [rows, columns] = linearSumAssignment(at::empty(shape), false);
    EXPECT_EQ(rows.numel() + columns.numel(), 0);
  }
}

TEST(LinearSumAssignment, RefusesWhatHasNoAnswer) {
  EXPECT_THROW(linearSumAssignment(matrix({{NAN}}), false), c10::Error);
  EXPECT_THROW(linearSumAssignment(matrix({{-INFINITY}}), false), c10::Error);
  EXPECT_THROW(linearSumAssignment(matrix({{INFINITY, INFINITY}}), false),
               c10::Error);
  EXPECT_THROW(linearSumAssignment(at::ones({3}), false), c10::Error);
  EXPECT_NO_THROW(linearSumAssignment(matrix({{INFINITY, 1}}), false));
}

// The cheapest assignment of rows to columns, by shortest augmenting paths.
//
// The algorithm is that of D. F. Crouse, "On implementing 2D rectangular
// assignment algorithms", IEEE Transactions on Aerospace and Electronic Systems
// 52 (2016), which SciPy has. Where several assignments are equally cheap,
// which one is found depends on the order in which columns are looked at, and
// on the order of sums. Both are SciPy's here, so that a loss trains as in
// eager mode.

#include "operators/Operators.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace fsdp {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kNone = -1;

/// Assigns rows of a matrix with at least as many columns, one after the other.
class Assignment {
public:
  Assignment(std::vector<double> costs, int64_t rows, int64_t columns)
      : costs(std::move(costs)), rows(rows), columns(columns), rowPrices(rows),
        columnPrices(columns), distances(columns), previous(columns, kNone),
        rowOf(columns, kNone), columnOf(rows, kNone), isRowSeen(rows),
        isColumnSeen(columns), unseen(columns) {}

  /// The column of each row. Throws c10::Error where every assignment has an
  /// infinite cost.
  const std::vector<int64_t> &solve() {
    for (int64_t row = 0; row < rows; ++row) {
      auto [end, distance] = findShortestPath(row);
      updatePrices(row, distance);
      augment(row, end);
    }
    return columnOf;
  }

private:
  struct Path {
    int64_t end;
    double distance;
  };

  /// The shortest path from a row without a column to a column without a row.
  Path findShortestPath(int64_t start) {
    // From the last to the first: equal costs give the identity.
    std::iota(unseen.rbegin(), unseen.rend(), int64_t(0));
    std::fill(isRowSeen.begin(), isRowSeen.end(), false);
    std::fill(isColumnSeen.begin(), isColumnSeen.end(), false);
    std::fill(distances.begin(), distances.end(), kInfinity);
    int64_t row = start, left = columns;
    double distance = 0.0;
    while (true) {
      isRowSeen[row] = true;
      int64_t nearest = lookFrom(row, distance, left);
      TORCH_CHECK(nearest != kNone, "linear_sum_assignment: cost matrix is "
                                    "infeasible: each assignment of all rows "
                                    "has an infinite cost");
      int64_t column = unseen[nearest];
      distance = distances[column];
      isColumnSeen[column] = true;
      if (rowOf[column] == kNone)
        return {column, distance};
      row = rowOf[column];
      unseen[nearest] = unseen[--left];
    }
  }

  /// Shortens paths by way of `row`, and gives the place in `unseen` of the
  /// nearest column, a free one among equals.
  int64_t lookFrom(int64_t row, double distance, int64_t left) {
    int64_t nearest = kNone;
    double least = kInfinity;
    for (int64_t place = 0; place < left; ++place) {
      int64_t column = unseen[place];
      double through = distance + costs[row * columns + column] -
                       rowPrices[row] - columnPrices[column];
      if (through < distances[column]) {
        previous[column] = row;
        distances[column] = through;
      }
      bool isFree = rowOf[column] == kNone;
      if (distances[column] < least ||
          (distances[column] == least && least < kInfinity && isFree)) {
        least = distances[column];
        nearest = place;
      }
    }
    return nearest;
  }

  void updatePrices(int64_t start, double distance) {
    rowPrices[start] += distance;
    for (int64_t row = 0; row < rows; ++row)
      if (isRowSeen[row] && row != start)
        rowPrices[row] += distance - distances[columnOf[row]];
    for (int64_t column = 0; column < columns; ++column)
      if (isColumnSeen[column])
        columnPrices[column] -= distance - distances[column];
  }

  /// Gives each row on the path the column behind it.
  void augment(int64_t start, int64_t column) {
    while (true) {
      int64_t row = previous[column];
      rowOf[column] = row;
      std::swap(columnOf[row], column);
      if (row == start)
        return;
    }
  }

  std::vector<double> costs;
  int64_t rows, columns;
  std::vector<double> rowPrices, columnPrices;
  /// Of the path that is looked for.
  std::vector<double> distances;
  std::vector<int64_t> previous;
  std::vector<int64_t> rowOf, columnOf;
  std::vector<bool> isRowSeen, isColumnSeen;
  std::vector<int64_t> unseen;
};

} // namespace

std::tuple<at::Tensor, at::Tensor> linearSumAssignment(const at::Tensor &cost,
                                                       bool maximize) {
  TORCH_CHECK(cost.dim() == 2 && !cost.is_complex(),
              "linear_sum_assignment: expected a matrix of real numbers, got ",
              cost.scalar_type(), " of shape ", cost.sizes());
  bool isTall = cost.size(1) < cost.size(0);
  // A row for each that gets a partner.
  at::Tensor wide = (isTall ? cost.t() : cost).to(at::kDouble).contiguous();
  const double *first = wide.const_data_ptr<double>();
  std::vector<double> costs(first, first + wide.numel());
  for (double &one : costs) {
    one = maximize ? -one : one;
    TORCH_CHECK(!std::isnan(one) && one != -kInfinity,
                "linear_sum_assignment: matrix contains invalid numeric "
                "entries: NaN, or ",
                maximize ? "" : "-", "infinity");
  }
  int64_t count = wide.size(0);
  std::vector<int64_t> partners =
      Assignment(std::move(costs), count, wide.size(1)).solve();
  at::Tensor rows = at::empty({count}, at::kLong);
  at::Tensor columns = at::empty({count}, at::kLong);
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), int64_t(0));
  if (isTall)
    std::sort(order.begin(), order.end(), [&](int64_t one, int64_t other) {
      return partners[one] < partners[other];
    });
  auto *row = rows.mutable_data_ptr<int64_t>();
  auto *column = columns.mutable_data_ptr<int64_t>();
  for (int64_t place = 0; place < count; ++place) {
    int64_t own = order[place], partner = partners[own];
    row[place] = isTall ? partner : own;
    column[place] = isTall ? own : partner;
  }
  return {rows, columns};
}

} // namespace fsdp

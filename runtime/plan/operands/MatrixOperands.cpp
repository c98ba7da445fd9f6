// Of linear algebra and transforms.
#include "plan/operands/Operands.h"

#include <algorithm>
#include <set>

using namespace fsdp::plan;

namespace {

bool isDistanceBackward(const Operands &of) {
  Shape self = of.shape("self");
  return self.size() == 2 && isPositive(self) &&
         of.haveSameShape({"grad", "pdist"}) &&
         numel(of.shape("grad")) ==
             self[0] * std::max<int64_t>(self[0] - 1, 0) / 2;
}

bool isTransform(const Operands &of) {
  Shape self = of.shape("self"), dims = of.integers("dim");
  std::set<int64_t> seen;
  for (int64_t dim : dims)
    if (dim < 0 || dim >= int64_t(self.size()) || !seen.insert(dim).second)
      return false;
  std::optional<int64_t> size = of.integer("last_dim_size");
  return !size ||
         (!dims.empty() && *size >= 1 && self[dims.back()] == *size / 2 + 1);
}

bool isFactored(const Operands &of) {
  Shape self = of.shape("LU_data"), pivots = of.shape("LU_pivots");
  if (self.size() < 2)
    return false;
  Shape expected = leading(self, 2);
  expected.push_back(std::min(self[self.size() - 2], self.back()));
  return pivots == expected;
}

bool isSolved(const Operands &of) {
  Shape self = of.shape("self"), by = of.shape("A");
  return self.size() >= 2 && self.size() == by.size() &&
         leading(self, 2) == leading(by, 2) &&
         by[by.size() - 1] == by[by.size() - 2] &&
         self[self.size() - 2] == by.back();
}

constexpr Contract matrixRows[] = {
    {"aten::_pdist_backward", isDistanceBackward},
    {"aten::_fft_c2c", isTransform},
    {"aten::_fft_c2r", isTransform},
    {"aten::_fft_r2c", isTransform},
    {"aten::lu_unpack", isFactored},
    {"aten::_cholesky_solve_helper", isSolved},
};

} // namespace

const Contracts fsdp::plan::matrixContracts = matrixRows;

// Of kernels that walk over places: pools, pads, grids and resampled images.
#include "plan/operands/Operands.h"

#include <cmath>

using namespace fsdp::plan;

namespace {

/// The gradient of a pooling's result, over the last `dims` dimensions.
template <size_t dims> bool isPoolBackward(const Operands &of) {
  Shape self = of.shape("self"), gradOutput = of.shape("grad_output");
  bool isPool = self.size() == dims + 1 || self.size() == dims + 2;
  return isPool && self.size() == gradOutput.size() &&
         of.haveSameShape({"grad_output", "indices"}) &&
         leading(self, dims) == leading(gradOutput, dims) && isPositive(self) &&
         isPositive(gradOutput);
}

/// Of what was padded on both sides of the last `dims` dimensions.
template <size_t dims> bool isPadded(const Operands &of) {
  size_t rank = of.shape("self").size();
  return of.integers("padding").size() == 2 * dims &&
         (rank == dims + 1 || rank == dims + 2);
}
template <size_t dims> bool isPadBackward(const Operands &of) {
  if (!isPadded<dims>(of))
    return false;
  Shape shape = of.shape("self"), padding = of.integers("padding");
  for (size_t i = 0; i < dims; ++i)
    if (__builtin_add_overflow(shape[shape.size() - 1 - i], padding[2 * i],
                               &shape[shape.size() - 1 - i]) ||
        __builtin_add_overflow(shape[shape.size() - 1 - i], padding[2 * i + 1],
                               &shape[shape.size() - 1 - i]))
      return false;
  return shape == of.shape("grad_output") && isPositive(shape) &&
         isPositive(of.shape("self"));
}

bool isUnfoldBackward(const Operands &of) {
  Shape shape = of.integers("input_sizes");
  int64_t dim = of.integer("dim").value_or(-1),
          size = of.integer("size").value_or(0),
          step = of.integer("step").value_or(0), rank = shape.size();
  dim += dim < 0 ? rank : 0;
  if (dim < 0 || dim >= rank || size < 1 || step < 1 || size > shape[dim])
    return false;
  shape[dim] = (shape[dim] - size) / step + 1;
  shape.push_back(size);
  return shape == of.shape("grad_in");
}

template <size_t dims> bool isGridBackward(const Operands &of) {
  Shape input = of.shape("input"), grid = of.shape("grid");
  if (input.size() != dims + 2 || grid.size() != dims + 2)
    return false;
  Shape gradOutput = {input[0], input[1]};
  gradOutput.insert(gradOutput.end(), grid.begin() + 1, grid.end() - 1);
  return grid[0] == input[0] && grid.back() == int64_t(dims) &&
         of.shape("grad_output") == gradOutput && isPositive(input) &&
         isPositive(gradOutput);
}

/// The scales are those of the sizes, or there are none.
bool isResampled(const Operands &of, const Shape &from) {
  Shape to = of.integers("output_size");
  if (from.size() != 4 || to.size() != 2 || !isPositive(from) ||
      !isPositive(to))
    return false;
  const char *names[] = {"scales_h", "scales_w"};
  for (size_t i = 0; i < 2; ++i) {
    std::optional<double> scale;
    if (!of.isConstant(names[i], scale) ||
        (scale && std::floor(double(from[2 + i]) * *scale) != double(to[i])))
      return false;
  }
  return true;
}
bool isResampling(const Operands &of) {
  return isResampled(of, of.shape("self"));
}
bool isResamplingBackward(const Operands &of) {
  Shape from = of.integers("input_size"), to = of.integers("output_size");
  return isResampled(of, from) &&
         of.shape("grad_output") == Shape{from[0], from[1], to[0], to[1]};
}

constexpr Contract imageRows[] = {
    {"aten::max_pool2d_with_indices_backward", isPoolBackward<2>},
    {"aten::max_pool3d_with_indices_backward", isPoolBackward<3>},
    {"aten::adaptive_max_pool2d_backward", isPoolBackward<2>},
    {"aten::adaptive_max_pool3d_backward", isPoolBackward<3>},
    {"aten::fractional_max_pool2d_backward", isPoolBackward<2>},
    {"aten::fractional_max_pool3d_backward", isPoolBackward<3>},
    {"aten::avg_pool2d_backward", isPoolBackward<2>},
    {"aten::avg_pool3d_backward", isPoolBackward<3>},
    {"aten::_adaptive_avg_pool2d_backward", isPoolBackward<2>},
    {"aten::_adaptive_avg_pool3d_backward", isPoolBackward<3>},
    {"aten::reflection_pad1d", isPadded<1>},
    {"aten::reflection_pad2d", isPadded<2>},
    {"aten::reflection_pad3d", isPadded<3>},
    {"aten::replication_pad1d", isPadded<1>},
    {"aten::replication_pad2d", isPadded<2>},
    {"aten::replication_pad3d", isPadded<3>},
    {"aten::reflection_pad1d_backward", isPadBackward<1>},
    {"aten::reflection_pad2d_backward", isPadBackward<2>},
    {"aten::reflection_pad3d_backward", isPadBackward<3>},
    {"aten::replication_pad1d_backward", isPadBackward<1>},
    {"aten::replication_pad2d_backward", isPadBackward<2>},
    {"aten::replication_pad3d_backward", isPadBackward<3>},
    {"aten::unfold_backward", isUnfoldBackward},
    {"aten::grid_sampler_2d_backward", isGridBackward<2>},
    {"aten::grid_sampler_3d_backward", isGridBackward<3>},
    {"aten::_upsample_bilinear2d_aa", isResampling},
    {"aten::_upsample_bicubic2d_aa", isResampling},
    {"aten::_upsample_bilinear2d_aa_backward", isResamplingBackward},
    {"aten::_upsample_bicubic2d_aa_backward", isResamplingBackward},
};

} // namespace

const Contracts fsdp::plan::imageContracts = imageRows;

#include "state/InitialValues.h"

#include "device/ScalarType.h"
#include "state/Philox.h"

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/Math.h>
#include <ATen/ops/from_blob.h>
#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

namespace fsdp {

namespace {

/// Two numbers in [0, 1) of 53 bits for one element of one draw.
std::pair<double, double> randomNumbers(int64_t seed, uint32_t draw,
                                        uint64_t position) {
  auto low = [](uint64_t x) { return static_cast<uint32_t>(x); };
  auto high = [](uint64_t x) { return static_cast<uint32_t>(x >> 32); };
  auto bits =
      philox({low(position), high(position), draw, 0}, {low(seed), high(seed)});
  auto unit = [](uint32_t a, uint32_t b) {
    return static_cast<double>((uint64_t(a) << 32 | b) >> 11) * 0x1p-53;
  };
  return {unit(bits[0], bits[1]), unit(bits[2], bits[3])};
}

/// Box and Muller's.
double normalNumber(std::pair<double, double> uniform) {
  constexpr double pi = 3.14159265358979323846;
  return std::sqrt(-2 * std::log1p(-uniform.first)) *
         std::cos(2 * pi * uniform.second);
}

/// Which elements a step is for.
class Elements {
public:
  explicit Elements(const plan::RegionT *region) : all(!region) {
    if (all)
      return;
    offset = region->offset;
    for (size_t d = 0; d < region->sizes.size(); ++d)
      if (region->sizes[d] != 1)
        dims.push_back({region->strides[d], region->sizes[d]});
    std::sort(dims.rbegin(), dims.rend());
  }

  bool has(int64_t position) const {
    if (all)
      return true;
    int64_t rest = position - offset;
    for (auto [stride, size] : dims) {
      int64_t index = rest / stride;
      if (rest < 0 || index >= size)
        return false;
      rest -= index * stride;
    }
    return rest == 0;
  }

private:
  bool all;
  int64_t offset = 0;
  std::vector<std::pair<int64_t, int64_t>> dims; // stride, size; falling
};

void apply(const plan::InitStepT &step, int64_t seed, int64_t begin,
           int64_t count, double *values) {
  Elements elements(step.region.get());
  auto each = [&](auto function) {
    for (int64_t i = 0; i < count; ++i)
      if (elements.has(begin + i))
        values[i] = function(values[i], begin + i);
  };
  double a = step.a.value_or(0), b = step.b;
  switch (step.kind) {
  case plan::InitKind::Fill:
    return each([=](double, int64_t) { return a; });
  case plan::InitKind::Uniform:
    return each([=](double, int64_t position) {
      return a + (b - a) * randomNumbers(seed, step.draw, position).first;
    });
  case plan::InitKind::Normal:
    return each([=](double, int64_t position) {
      return a + b * normalNumber(randomNumbers(seed, step.draw, position));
    });
  case plan::InitKind::Multiply:
    return each([=](double value, int64_t) { return value * a; });
  case plan::InitKind::Add:
    return each([=](double value, int64_t) { return value + a; });
  case plan::InitKind::Clamp:
    return each(
        [=](double value, int64_t) { return std::min(std::max(value, a), b); });
  case plan::InitKind::Erfinv:
    return each([](double value, int64_t) { return calc_erfinv(value); });
  }
}

} // namespace

void computeInitialValues(const plan::StateT &state, int64_t seed,
                          int64_t begin, int64_t count, void *out) {
  constexpr int64_t blockSize = 4096;
  char *to = static_cast<char *>(out);
  auto type = at::TensorOptions().dtype(toScalarType(state.dtype));
  int64_t blocks = (count + blockSize - 1) / blockSize;
  std::atomic<int64_t> next{0};
  // An element's value depends on its position alone.
  auto work = [&] {
    double block[blockSize];
    for (int64_t b; (b = next++) < blocks;) {
      int64_t done = b * blockSize, size = std::min(blockSize, count - done);
      std::fill_n(block, size, 0.0);
      for (const auto &step : state.init)
        apply(*step, seed, begin + done, size, block);
      at::from_blob(to + done * plan::dtypeBytes(state.dtype), {size}, type)
          .copy_(at::from_blob(block, {size}, at::kDouble));
    }
  };
  std::vector<std::thread> helpers;
  while (static_cast<int64_t>(helpers.size()) + 1 <
         std::min<int64_t>(at::get_num_threads(), blocks))
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

} // namespace fsdp

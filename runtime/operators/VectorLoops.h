// Loops that compilers make vectors of.

#ifndef FSDP_RUNTIME_OPERATORS_VECTORLOOPS_H
#define FSDP_RUNTIME_OPERATORS_VECTORLOOPS_H

#include "comm/ReducedPrecision.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

// Loops are inlined into one function for each width of vectors.
#define FSDP_INLINE __attribute__((always_inline)) inline

namespace fsdp {

/// Whether functions for `target("avx2,fma")` run here.
inline bool hasWideVectors() {
#ifdef __x86_64__
  static const bool wide =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return wide;
#else
  return false;
#endif
}

/// The exponential of x <= 0, to 2 units in the last place: 2^n times the
/// Taylor series of what remains, |r| <= ln(2) / 2, whose eighth term is below
/// 2^-27. Without branches, so that loops become vectors. 0 where the result
/// would be subnormal; NaN of NaN.
FSDP_INLINE float exponential(float x) {
  constexpr float log2e = 1.44269504f, toInteger = 0x1.8p23f;
  // ln(2) as a float with few bits, of which multiples are exact, and the rest.
  constexpr float ln2High = 0.693359375f, ln2Low = -2.12194440e-4f;
  float shifted = x * log2e + toInteger;
  float n = shifted - toInteger;
  float r = (x - n * ln2High) - n * ln2Low;
  float series = 1.f / 5040 * r + 1.f / 720;
  series = series * r + 1.f / 120;
  series = series * r + 1.f / 24;
  series = series * r + 1.f / 6;
  series = (series * r + 0.5f) * r + 1.f;
  series = series * r + 1.f;
  float power = floatOf((floatBits(shifted) << 23) + 0x3f800000u);
  return x < -87.f ? 0.f : series * power;
}

/// The largest of `elementOf(0)` to `elementOf(count - 1)`, -inf of none: in
/// lanes, since not every compiler makes vectors of the one comparison after
/// the other.
template <typename Function>
FSDP_INLINE float largestOf(int64_t count, Function elementOf) {
  constexpr int64_t lanes = 16;
  float most[lanes];
  for (float &lane : most)
    lane = -HUGE_VALF;
  int64_t j = 0;
  for (; j + lanes <= count; j += lanes)
#pragma omp simd
    for (int64_t lane = 0; lane < lanes; ++lane)
      most[lane] = std::max<float>(most[lane], elementOf(j + lane));
  for (; j < count; ++j)
    most[0] = std::max<float>(most[0], elementOf(j));
  for (int64_t lane = 1; lane < lanes; ++lane)
    most[0] = std::max<float>(most[0], most[lane]);
  return most[0];
}

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_VECTORLOOPS_H

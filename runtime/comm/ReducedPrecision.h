#ifndef FSDP_RUNTIME_COMM_REDUCEDPRECISION_H
#define FSDP_RUNTIME_COMM_REDUCEDPRECISION_H

#include <algorithm>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace fsdp {

/// What a dtype is computed in. Reduced precision is, as in PyTorch, widened to
/// float exactly, and every result rounded to the nearest, ties to even. The
/// conversions have the bits of c10's, but no branches, so that loops over them
/// become vectors.
template <typename T> struct Number {
  static T widen(T x) { return x; }
  static T narrow(T x) { return x; }
};

inline uint32_t floatBits(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return bits;
}

inline float floatOf(uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof(x));
  return x;
}

/// Signed, since such comparisons are what vectors have.
inline bool isNotANumber(uint32_t bits) {
  return static_cast<int32_t>(bits & 0x7fffffff) > 0x7f800000;
}

template <> struct Number<c10::BFloat16> {
  static float widen(c10::BFloat16 x) {
    return floatOf(static_cast<uint32_t>(x.x) << 16);
  }
  static c10::BFloat16 narrow(float x) {
    uint32_t bits = floatBits(x);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return {static_cast<uint16_t>(isNotANumber(bits) ? 0x7fc0 : rounded),
            c10::BFloat16::from_bits()};
  }
};

template <> struct Number<c10::Half> {
  static float widen(c10::Half x) {
    uint32_t sign = (x.x & 0x8000u) << 16, rest = x.x & 0x7fffu;
    // With the exponent's bias, or infinity's; or as a multiple of the least.
    float normal = floatOf((rest << 13) + (0xe0u << 23)) * 0x1p-112f;
    float subnormal = floatOf(rest | (126u << 23)) - 0.5f;
    bool small = static_cast<int32_t>(rest) < 0x400;
    return floatOf(sign | (small ? floatBits(subnormal) : floatBits(normal)));
  }
  static c10::Half narrow(float x) {
    uint32_t bits = floatBits(x);
    // What is too large becomes infinite, and adding a power of two so much
    // larger leaves just the bits that a half has, rounded.
    float scaled = std::fabs(x) * 0x1p112f * 0x1p-110f;
    uint32_t exponent = (bits << 1) & 0xff000000;
    float power = floatOf((std::max(exponent, 0x71000000u) >> 1) + 0x07800000u);
    uint32_t sum = floatBits(power + scaled);
    uint32_t rounded = ((sum >> 13) & 0x7c00) + (sum & 0x0fff);
    return {static_cast<uint16_t>((bits >> 16 & 0x8000) |
                                  (isNotANumber(bits) ? 0x7e00 : rounded)),
            c10::Half::from_bits()};
  }
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_REDUCEDPRECISION_H

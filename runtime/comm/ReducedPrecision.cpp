#include "comm/ReducedPrecision.h"

#include <cstdint>
#include <cstring>

#ifdef __x86_64__
#include <immintrin.h>
// The loops below, once more for CPUs with wider vectors; chosen at run time.
#define FSDP_WIDE_TOO __attribute__((target_clones("avx2", "default")))
#else
#define FSDP_WIDE_TOO
#endif

namespace fsdp {

FSDP_WIDE_TOO
static void widenBits(const uint16_t *from, uint32_t *to, size_t count) {
  for (size_t i = 0; i < count; ++i)
    to[i] = static_cast<uint32_t>(from[i]) << 16;
}

FSDP_WIDE_TOO
static void narrowBits(const uint32_t *from, uint16_t *to, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t bits = from[i];
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    bool isNumber = static_cast<int32_t>(bits & 0x7fffffff) <= 0x7f800000;
    to[i] = static_cast<uint16_t>(isNumber ? rounded : 0x7fc0);
  }
}

// Both types are their bits; so that the loops above are about integers.
void widen(const c10::BFloat16 *from, float *to, size_t count) {
  widenBits(reinterpret_cast<const uint16_t *>(from),
            reinterpret_cast<uint32_t *>(to), count);
}

void narrow(const float *from, c10::BFloat16 *to, size_t count) {
  narrowBits(reinterpret_cast<const uint32_t *>(from),
             reinterpret_cast<uint16_t *>(to), count);
}

#ifdef __x86_64__

static bool convertsHalves() {
  static const bool does =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("f16c");
  return does;
}

/// Returns how many it converted: all but the last few.
__attribute__((target("avx2,f16c"))) static size_t
widenHalves(const c10::Half *from, float *to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
                                 reinterpret_cast<const __m128i *>(from + i))));
  return i;
}

__attribute__((target("avx2,f16c"))) static size_t
narrowHalves(const float *from, c10::Half *to, size_t count) {
  size_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i *>(to + i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}

#else

static bool convertsHalves() { return false; }
static size_t widenHalves(const c10::Half *, float *, size_t) { return 0; }
static size_t narrowHalves(const float *, c10::Half *, size_t) { return 0; }

#endif

void widen(const c10::Half *from, float *to, size_t count) {
  for (size_t i = convertsHalves() ? widenHalves(from, to, count) : 0;
       i < count; ++i)
    to[i] = static_cast<float>(from[i]);
}

void narrow(const float *from, c10::Half *to, size_t count) {
  for (size_t i = convertsHalves() ? narrowHalves(from, to, count) : 0;
       i < count; ++i)
    to[i] = static_cast<c10::Half>(from[i]);
}

} // namespace fsdp

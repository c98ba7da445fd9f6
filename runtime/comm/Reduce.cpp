#include "comm/Reduce.h"

#include "comm/ReducedPrecision.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace fsdp {

namespace {

/// Whether x / divisor is x * (1 / divisor) to the bit: a power of two whose
/// reciprocal is a normal number.
bool multipliesExactly(double divisor) {
  int exponent;
  return std::frexp(divisor, &exponent) == 0.5 && std::abs(exponent) < 100;
}

// What is below is compiled twice, for CPUs of every age.
#define FSDP_INLINE __attribute__((always_inline)) inline

/// out = finish(x + y). The same memory may be two of them.
template <typename T, typename Finish>
FSDP_INLINE void add(const T *x, const T *y, T *out, size_t n, Finish finish) {
  using N = Number<T>;
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i)
    out[i] = finish(N::narrow(N::widen(x[i]) + N::widen(y[i])));
}

/// Block by block, which stays in the first-level cache: each source is read
/// once, and a destination that is one of the sources is written after it was
/// read.
template <typename T, typename Finish>
FSDP_INLINE void combineBlocks(const std::vector<const void *> &sources,
                               const std::vector<void *> &destinations,
                               size_t count, Finish finish) {
  constexpr size_t capacity = 4096 / sizeof(T);
  T sum[capacity];
  auto keep = [](T x) __attribute__((always_inline)) { return x; };
  for (size_t begin = 0; begin < count; begin += capacity) {
    size_t n = std::min(capacity, count - begin);
    auto at = [&](const void *base) __attribute__((always_inline)) {
      return static_cast<const T *>(base) + begin;
    };
    T *first = static_cast<T *>(destinations[0]) + begin;
    const T *before = at(sources[0]);
    for (size_t s = 1; s + 1 < sources.size(); ++s) {
      add(before, at(sources[s]), sum, n, keep);
      before = sum;
    }
    if (sources.size() > 1)
      add(before, at(sources.back()), first, n, finish);
    else
      std::transform(before, before + n, first, finish);
    for (size_t d = 1; d < destinations.size(); ++d)
      std::memcpy(static_cast<T *>(destinations[d]) + begin, first,
                  n * sizeof(T));
  }
}

template <typename T>
FSDP_INLINE void combineAs(const std::vector<const void *> &sources,
                           const std::vector<void *> &destinations,
                           size_t count, double divisor) {
  using N = Number<T>;
  using Wide = decltype(N::widen(T()));
  auto blocks = [&](auto finish) __attribute__((always_inline)) {
    combineBlocks<T>(sources, destinations, count, finish);
  };
  if constexpr (std::is_floating_point_v<Wide>) {
    if (divisor != 1 && multipliesExactly(divisor)) {
      auto factor = static_cast<Wide>(1 / divisor);
      return blocks([factor](T x) __attribute__((always_inline)) {
        return N::narrow(N::widen(x) * factor);
      });
    }
    if (divisor != 1) {
      auto by = static_cast<Wide>(divisor);
      return blocks([by](T x) __attribute__((always_inline)) {
        return N::narrow(N::widen(x) / by);
      });
    }
  }
  blocks([](T x) __attribute__((always_inline)) { return x; });
}

void copy(const void *source, const std::vector<void *> &destinations,
          size_t bytes) {
  for (void *destination : destinations)
    if (destination != source && bytes)
      std::memcpy(destination, source, bytes);
}

bool isFloating(plan::DType dtype) {
  return dtype == plan::DType::Float16 || dtype == plan::DType::BFloat16 ||
         dtype == plan::DType::Float32 || dtype == plan::DType::Float64;
}

FSDP_INLINE void combineAny(const std::vector<const void *> &sources,
                            const std::vector<void *> &destinations,
                            size_t count, plan::DType dtype, double divisor) {
  switch (dtype) {
  // Unsigned, so that overflow wraps as PyTorch's does.
  case plan::DType::UInt8:
  case plan::DType::Int8:
    return combineAs<uint8_t>(sources, destinations, count, divisor);
  case plan::DType::Int16:
    return combineAs<uint16_t>(sources, destinations, count, divisor);
  case plan::DType::Int32:
    return combineAs<uint32_t>(sources, destinations, count, divisor);
  case plan::DType::Int64:
    return combineAs<uint64_t>(sources, destinations, count, divisor);
  case plan::DType::Float16:
    return combineAs<c10::Half>(sources, destinations, count, divisor);
  case plan::DType::BFloat16:
    return combineAs<c10::BFloat16>(sources, destinations, count, divisor);
  case plan::DType::Float32:
    return combineAs<float>(sources, destinations, count, divisor);
  case plan::DType::Float64:
    return combineAs<double>(sources, destinations, count, divisor);
  case plan::DType::Complex64:
    return combineAs<std::complex<float>>(sources, destinations, count,
                                          divisor);
  case plan::DType::Complex128:
    return combineAs<std::complex<double>>(sources, destinations, count,
                                           divisor);
  case plan::DType::Bool:
    return;
  }
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void
combineWide(const std::vector<const void *> &sources,
            const std::vector<void *> &destinations, size_t count,
            plan::DType dtype, double divisor) {
  combineAny(sources, destinations, count, dtype, divisor);
}

bool hasWideVectors() { return __builtin_cpu_supports("avx2"); }
#else
constexpr auto &combineWide = combineAny;
bool hasWideVectors() { return false; }
#endif

} // namespace

void combine(const std::vector<const void *> &sources,
             const std::vector<void *> &destinations, size_t count,
             plan::DType dtype, double divisor) {
  static const bool wide = hasWideVectors();
  if (sources.size() == 1 && divisor == 1)
    copy(sources[0], destinations, count * plan::dtypeBytes(dtype));
  else if (wide)
    combineWide(sources, destinations, count, dtype, divisor);
  else
    combineAny(sources, destinations, count, dtype, divisor);
}

void checkReduction(plan::DType dtype, double divisor) {
  if (dtype == plan::DType::Bool)
    throw std::invalid_argument(
        "bool cannot be reduced; cast it to an integer");
  if (divisor != 1 && !isFloating(dtype))
    throw std::invalid_argument("only floating numbers are divided in a "
                                "reduction; divide after it");
}

} // namespace fsdp

#include "comm/Reduce.h"

#include <algorithm>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cmath>
#include <complex>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace fsdp {

namespace {

/// What a dtype is computed in, and how a result becomes one of its values.
template <typename T> struct Arithmetic {
  using Wide = T;
  static Wide round(Wide x) { return x; }
};

/// PyTorch computes reduced-precision numbers in float.
template <typename T> struct Reduced {
  using Wide = float;
  static Wide round(Wide x) { return static_cast<float>(static_cast<T>(x)); }
};
template <> struct Arithmetic<c10::Half> : Reduced<c10::Half> {};
template <> struct Arithmetic<c10::BFloat16> : Reduced<c10::BFloat16> {};

/// Whether x / divisor is x * (1 / divisor) to the bit: a power of two whose
/// reciprocal is a normal number.
bool multipliesExactly(double divisor) {
  int exponent;
  return std::frexp(divisor, &exponent) == 0.5 && std::abs(exponent) < 100;
}

// Block by block through a buffer: each source is read once, and a destination
// that is one of the sources is written after it was read.
constexpr size_t blockBytes = 8192;

template <typename T>
void combineAs(const std::vector<const void *> &sources,
               const std::vector<void *> &destinations, size_t count,
               double divisor) {
  using Wide = typename Arithmetic<T>::Wide;
  constexpr size_t block = blockBytes / sizeof(Wide);
  constexpr auto round = Arithmetic<T>::round;
  Wide sum[block];
  T narrow[block];
  for (size_t begin = 0; begin < count; begin += block) {
    size_t n = std::min(block, count - begin);
    auto source = [&](size_t s) {
      return static_cast<const T *>(sources[s]) + begin;
    };
    const T *first = source(0);
    if (sources.size() == 1) {
      for (size_t i = 0; i < n; ++i)
        sum[i] = first[i];
    } else {
      const T *second = source(1);
      for (size_t i = 0; i < n; ++i)
        sum[i] =
            round(static_cast<Wide>(first[i]) + static_cast<Wide>(second[i]));
    }
    for (size_t s = 2; s < sources.size(); ++s) {
      const T *next = source(s);
      for (size_t i = 0; i < n; ++i)
        sum[i] = round(sum[i] + static_cast<Wide>(next[i]));
    }
    if constexpr (std::is_floating_point_v<Wide>)
      if (divisor != 1) {
        if (multipliesExactly(divisor)) {
          auto factor = static_cast<Wide>(1 / divisor);
          for (size_t i = 0; i < n; ++i)
            sum[i] *= factor;
        } else {
          auto by = static_cast<Wide>(divisor);
          for (size_t i = 0; i < n; ++i)
            sum[i] /= by;
        }
      }
    const void *result = sum;
    if constexpr (!std::is_same_v<T, Wide>) {
      for (size_t i = 0; i < n; ++i)
        narrow[i] = static_cast<T>(sum[i]);
      result = narrow;
    }
    for (void *destination : destinations)
      std::memcpy(static_cast<char *>(destination) + begin * sizeof(T), result,
                  n * sizeof(T));
  }
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

} // namespace

void combine(const std::vector<const void *> &sources,
             const std::vector<void *> &destinations, size_t count,
             plan::DType dtype, double divisor) {
  if (sources.size() == 1 && divisor == 1)
    return copy(sources[0], destinations, count * plan::dtypeBytes(dtype));
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

void checkReduction(plan::DType dtype, double divisor) {
  if (dtype == plan::DType::Bool)
    throw std::invalid_argument(
        "bool cannot be reduced; cast it to an integer");
  if (divisor != 1 && !isFloating(dtype))
    throw std::invalid_argument("only floating numbers are divided in a "
                                "reduction; divide after it");
}

} // namespace fsdp

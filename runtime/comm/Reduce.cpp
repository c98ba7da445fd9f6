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

/// PyTorch computes reduced-precision numbers in float, and rounds every
/// result.
template <typename T>
constexpr bool isReduced =
    std::is_same_v<T, c10::Half> || std::is_same_v<T, c10::BFloat16>;

/// Numbers on their way through the first-level cache.
template <typename T> struct Block {
  using Wide = std::conditional_t<isReduced<T>, float, T>;
  static constexpr size_t capacity = 8192 / sizeof(Wide);

  /// sum = source
  void load(const T *source, size_t n) {
    if constexpr (isReduced<T>)
      widen(source, sum, n);
    else
      std::copy_n(source, n, sum);
  }
  /// sum = sum + source
  void add(const T *source, size_t n) {
    if constexpr (isReduced<T>) {
      widen(source, operand, n);
      for (size_t i = 0; i < n; ++i)
        sum[i] += operand[i];
      narrow(sum, narrowed, n);
      widen(narrowed, sum, n);
    } else {
      for (size_t i = 0; i < n; ++i)
        sum[i] = static_cast<T>(sum[i] + source[i]);
    }
  }
  void divide(double divisor, size_t n);
  /// The values of `sum`, rounded.
  const T *result(size_t n) {
    if constexpr (isReduced<T>) {
      narrow(sum, narrowed, n);
      return narrowed;
    } else {
      return sum;
    }
  }

  Wide sum[capacity];
  // Of reduced precision only.
  Wide operand[isReduced<T> ? capacity : 1];
  T narrowed[isReduced<T> ? capacity : 1];
};

/// Whether x / divisor is x * (1 / divisor) to the bit: a power of two whose
/// reciprocal is a normal number.
bool multipliesExactly(double divisor) {
  int exponent;
  return std::frexp(divisor, &exponent) == 0.5 && std::abs(exponent) < 100;
}

template <typename T> void Block<T>::divide(double divisor, size_t n) {
  if constexpr (std::is_floating_point_v<Wide>) {
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
}

// Block by block: each source is read once, and a destination that is one of
// the sources is written after it was read.
template <typename T>
void combineAs(const std::vector<const void *> &sources,
               const std::vector<void *> &destinations, size_t count,
               double divisor) {
  Block<T> block;
  for (size_t begin = 0; begin < count; begin += block.capacity) {
    size_t n = std::min(block.capacity, count - begin);
    auto source = [&](size_t s) {
      return static_cast<const T *>(sources[s]) + begin;
    };
    block.load(source(0), n);
    for (size_t s = 1; s < sources.size(); ++s)
      block.add(source(s), n);
    if (divisor != 1)
      block.divide(divisor, n);
    const void *result = block.result(n);
    for (void *destination : destinations)
      std::memcpy(static_cast<T *>(destination) + begin, result, n * sizeof(T));
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

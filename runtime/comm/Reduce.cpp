#include "comm/Reduce.h"

#include <algorithm>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <complex>
#include <cstdint>
#include <cstring>
#include <stdexcept>

namespace fsdp {

template <typename T>
static void sum(void *destination, const std::vector<const void *> &sources,
                size_t count) {
  // Block by block through a buffer: each source is read once, and a
  // destination that is one of the sources is written after it was read.
  constexpr size_t block = 4096 / sizeof(T);
  T accumulator[block];
  for (size_t begin = 0; begin < count; begin += block) {
    size_t n = std::min(block, count - begin);
    std::memcpy(static_cast<void *>(accumulator),
                static_cast<const T *>(sources[0]) + begin, n * sizeof(T));
    for (size_t s = 1; s < sources.size(); ++s) {
      const T *source = static_cast<const T *>(sources[s]) + begin;
      for (size_t i = 0; i < n; ++i)
        accumulator[i] = static_cast<T>(accumulator[i] + source[i]);
    }
    std::memcpy(static_cast<T *>(destination) + begin,
                static_cast<const void *>(accumulator), n * sizeof(T));
  }
}

void sumInOrder(void *destination, const std::vector<const void *> &sources,
                size_t count, plan::DType dtype) {
  switch (dtype) {
  // Unsigned, so that overflow wraps as PyTorch's does.
  case plan::DType::UInt8:
  case plan::DType::Int8:
    return sum<uint8_t>(destination, sources, count);
  case plan::DType::Int16:
    return sum<uint16_t>(destination, sources, count);
  case plan::DType::Int32:
    return sum<uint32_t>(destination, sources, count);
  case plan::DType::Int64:
    return sum<uint64_t>(destination, sources, count);
  case plan::DType::Float16:
    return sum<c10::Half>(destination, sources, count);
  case plan::DType::BFloat16:
    return sum<c10::BFloat16>(destination, sources, count);
  case plan::DType::Float32:
    return sum<float>(destination, sources, count);
  case plan::DType::Float64:
    return sum<double>(destination, sources, count);
  case plan::DType::Complex64:
    return sum<std::complex<float>>(destination, sources, count);
  case plan::DType::Complex128:
    return sum<std::complex<double>>(destination, sources, count);
  case plan::DType::Bool:
    break;
  }
  throw std::invalid_argument("bool cannot be reduced; cast it to an integer");
}

/// PyTorch divides reduced-precision numbers in float.
template <typename T, typename Compute>
static void divideAll(void *data, size_t count, double divisor) {
  auto by = static_cast<Compute>(divisor);
  T *values = static_cast<T *>(data);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>(static_cast<Compute>(values[i]) / by);
}

void divide(void *data, size_t count, plan::DType dtype, double divisor) {
  switch (dtype) {
  case plan::DType::Float16:
    return divideAll<c10::Half, float>(data, count, divisor);
  case plan::DType::BFloat16:
    return divideAll<c10::BFloat16, float>(data, count, divisor);
  case plan::DType::Float32:
    return divideAll<float, float>(data, count, divisor);
  case plan::DType::Float64:
    return divideAll<double, double>(data, count, divisor);
  default:
    throw std::invalid_argument("only floating numbers are divided in a "
                                "reduction; divide after it");
  }
}

} // namespace fsdp

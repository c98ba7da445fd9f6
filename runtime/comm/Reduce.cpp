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

struct Sum {
  // Unsigned, so that overflow wraps as PyTorch's does.
  template <typename T> using Integer = std::make_unsigned_t<T>;
  template <typename T> FSDP_INLINE static auto of(T x, T y) { return x + y; }
};

struct Max {
  template <typename T> using Integer = T;
  template <typename T> FSDP_INLINE static T of(T x, T y) {
    return x > y || x != x ? x : y;
  }
};

/// out = finish(x op y). The same memory may be two of them.
template <typename Op, typename T, typename Finish>
FSDP_INLINE void fold(const T *x, const T *y, T *out, size_t n, Finish finish) {
  using N = Number<T>;
#pragma GCC ivdep
  for (size_t i = 0; i < n; ++i)
    out[i] = finish(N::narrow(Op::of(N::widen(x[i]), N::widen(y[i]))));
}

/// Block by block, which stays in the first-level cache: each source is read
/// once, and a destination that is one of the sources is written after it was
/// read.
template <typename Op, typename T, typename Finish>
FSDP_INLINE void combineBlocks(const std::vector<const void *> &sources,
                               const std::vector<void *> &destinations,
                               size_t count, Finish finish) {
  constexpr size_t capacity = 4096 / sizeof(T);
  T partial[capacity];
  auto keep = [](T x) __attribute__((always_inline)) { return x; };
  for (size_t begin = 0; begin < count; begin += capacity) {
    size_t n = std::min(capacity, count - begin);
    auto at = [&](const void *base) __attribute__((always_inline)) {
      return static_cast<const T *>(base) + begin;
    };
    T *first = static_cast<T *>(destinations[0]) + begin;
    const T *before = at(sources[0]);
    for (size_t s = 1; s + 1 < sources.size(); ++s) {
      fold<Op>(before, at(sources[s]), partial, n, keep);
      before = partial;
    }
    if (sources.size() > 1)
      fold<Op>(before, at(sources.back()), first, n, finish);
    else
      std::transform(before, before + n, first, finish);
    for (size_t d = 1; d < destinations.size(); ++d)
      std::memcpy(static_cast<T *>(destinations[d]) + begin, first,
                  n * sizeof(T));
  }
}

template <typename Op, typename T>
FSDP_INLINE void combineAs(const std::vector<const void *> &sources,
                           const std::vector<void *> &destinations,
                           size_t count, double divisor) {
  using N = Number<T>;
  using Wide = decltype(N::widen(T()));
  auto blocks = [&](auto finish) __attribute__((always_inline)) {
    combineBlocks<Op, T>(sources, destinations, count, finish);
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

template <typename Op>
FSDP_INLINE void combineAny(const std::vector<const void *> &sources,
                            const std::vector<void *> &destinations,
                            size_t count, plan::DType dtype, double divisor) {
  auto as = [&](auto zero) __attribute__((always_inline)) {
    combineAs<Op, decltype(zero)>(sources, destinations, count, divisor);
  };
  switch (dtype) {
  case plan::DType::UInt8:
    return as(uint8_t());
  case plan::DType::Int8:
    return as(typename Op::template Integer<int8_t>());
  case plan::DType::Int16:
    return as(typename Op::template Integer<int16_t>());
  case plan::DType::Int32:
    return as(typename Op::template Integer<int32_t>());
  case plan::DType::Int64:
    return as(typename Op::template Integer<int64_t>());
  case plan::DType::Float16:
    return as(c10::Half());
  case plan::DType::BFloat16:
    return as(c10::BFloat16());
  case plan::DType::Float32:
    return as(float());
  case plan::DType::Float64:
    return as(double());
  case plan::DType::Complex64:
    if constexpr (std::is_same_v<Op, Sum>)
      as(std::complex<float>());
    return;
  case plan::DType::Complex128:
    if constexpr (std::is_same_v<Op, Sum>)
      as(std::complex<double>());
    return;
  case plan::DType::Bool:
    return;
  }
}

FSDP_INLINE void combineWith(plan::ReduceOp op,
                             const std::vector<const void *> &sources,
                             const std::vector<void *> &destinations,
                             size_t count, plan::DType dtype, double divisor) {
  if (op == plan::ReduceOp::Max)
    combineAny<Max>(sources, destinations, count, dtype, divisor);
  else
    combineAny<Sum>(sources, destinations, count, dtype, divisor);
}

using Combine = void (*)(plan::ReduceOp, const std::vector<const void *> &,
                         const std::vector<void *> &, size_t, plan::DType,
                         double);

void combineNarrow(plan::ReduceOp op, const std::vector<const void *> &sources,
                   const std::vector<void *> &destinations, size_t count,
                   plan::DType dtype, double divisor) {
  combineWith(op, sources, destinations, count, dtype, divisor);
}

#ifdef __x86_64__
__attribute__((target("avx2"))) void
combineWide(plan::ReduceOp op, const std::vector<const void *> &sources,
            const std::vector<void *> &destinations, size_t count,
            plan::DType dtype, double divisor) {
  combineWith(op, sources, destinations, count, dtype, divisor);
}

Combine forThisCpu() {
  return __builtin_cpu_supports("avx2") ? combineWide : combineNarrow;
}
#else
Combine forThisCpu() { return combineNarrow; }
#endif

} // namespace

void combine(const std::vector<const void *> &sources,
             const std::vector<void *> &destinations, size_t count,
             plan::DType dtype, double divisor, plan::ReduceOp op) {
  static const Combine combineHere = forThisCpu();
  if (sources.size() == 1 && divisor == 1)
    copy(sources[0], destinations, count * plan::dtypeBytes(dtype));
  else
    combineHere(op, sources, destinations, count, dtype, divisor);
}

void checkReduction(plan::DType dtype, double divisor, plan::ReduceOp op) {
  bool isMax = op == plan::ReduceOp::Max;
  if (dtype == plan::DType::Bool)
    throw std::invalid_argument(
        "bool cannot be reduced; cast it to an integer");
  if (isMax &&
      (dtype == plan::DType::Complex64 || dtype == plan::DType::Complex128))
    throw std::invalid_argument(
        "complex numbers have no order, so no maximum; take their absolute "
        "values");
  if (divisor != 1 && (isMax || !plan::isFloating(dtype)))
    throw std::invalid_argument("only sums of floating numbers are divided in "
                                "a reduction; divide after it");
}

} // namespace fsdp

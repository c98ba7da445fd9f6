#include "comm/Reduce.h"

#include "comm/Communicator.h"
#include "comm/ReducedPrecision.h"
#include "plan/Collectives.h"

#include <algorithm>
#include <c10/core/ScalarType.h>
#include <cmath>
#include <cstring>
#include <stdexcept>
#include <type_traits>

namespace fsdp {

namespace {

/// Whether x / divisor and x * (1 / divisor) have the same bits. They do where
/// the divisor is a power of two whose reciprocal is a normal number.
bool multipliesExactly(double divisor) {
  int exponent;
  return std::frexp(divisor, &exponent) == 0.5 && std::abs(exponent) < 100;
}

// What is below is compiled twice: for CPUs that have AVX2, and for all others.
#define FSDP_INLINE __attribute__((always_inline)) inline

/// C++'s type for a number in c10::ScalarType.
template <int number>
using Element = c10::impl::ScalarTypeToCPPTypeT<at::ScalarType(number)>;

template <typename T> struct Same { using type = T; };

struct Sum {
  static constexpr plan::ReduceOp reduceOp = plan::ReduceOp::Sum;
  // Unsigned, so that overflow wraps as PyTorch's does.
  template <typename T>
  using Operand =
      typename std::conditional_t<std::is_integral_v<T>, std::make_unsigned<T>,
                                  Same<T>>::type;
  template <typename T> FSDP_INLINE static auto of(T x, T y) { return x + y; }
};

struct Max {
  static constexpr plan::ReduceOp reduceOp = plan::ReduceOp::Max;
  template <typename T> using Operand = T;
  template <typename T> FSDP_INLINE static T of(T x, T y) {
    return x > y || x != x ? x : y;
  }
};

/// out = finish(x op y). `out` may be `x` or `y`.
template <typename Op, typename T, typename Finish>
FSDP_INLINE void fold(const T *x, const T *y, T *out, size_t n, Finish finish) {
  using N = Number<T>;
#pragma omp simd
  for (size_t i = 0; i < n; ++i)
    out[i] = finish(N::narrow(Op::of(N::widen(x[i]), N::widen(y[i]))));
}

/// Combines block by block, since a block stays in the first-level cache. Each
/// source is read once. A block is read from all sources before it is written,
/// so a destination may be a source.
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
#define FSDP_DTYPE(ENUM, NAME, BYTES, CLASS, SAFETENSORS, C10, MLIR)           \
  case plan::DType::ENUM:                                                      \
    if constexpr (plan::isReducible(plan::DTypeClass::CLASS, Op::reduceOp))    \
      as(typename Op::template Operand<Element<C10>>());                       \
    return;
#include "plan/DTypes.def"
#undef FSDP_DTYPE
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
  if (!plan::isReducible(dtype, op))
    throw Error(E::Collective, std::string("ranks cannot ") +
                                   (isMax ? "find the maximum of " : "sum ") +
                                   plan::dtypeName(dtype) +
                                   "; convert it to float32 before");
  if (divisor != 1 && (isMax || !plan::isFloating(dtype)))
    throw Error(E::Collective, "only sums of floating numbers are divided in "
                               "a reduction; divide after it");
}

void checkReduction(const Transfer &transfer) {
  if (plan::infoOf(transfer.kind).reduces)
    checkReduction(transfer.dtype, transfer.divisor, transfer.op);
}

} // namespace fsdp

// CUDA C++ of the kernels of cross-entropy: see operators/Operators.def.

#ifndef FSDP_RUNTIME_DRIVERS_CUDA_CROSSENTROPYKERNELS_H
#define FSDP_RUNTIME_DRIVERS_CUDA_CROSSENTROPYKERNELS_H

namespace fsdp {

/// For each type T of logits (float32, bfloat16, float16), one block a row:
///
///     sums_T(logits, classes, vectors, logsumexp)
///     backward_T(logits, classes, vectors, target, ignored, isMean, gradient,
///              totalWeight, logsumexp, gradInput)
///
/// and one block for all rows:
///
///     loss_T(logits, classes, target, rows, ignored, isMean, logsumexp,
///            output, totalWeight)
///
/// `vectors` is how many of 16 bytes a row begins with, where rows are aligned
/// to that, and 0 else. Threads are a multiple of 32, 1024 at most. All orders
/// of additions follow from the shape.
inline constexpr const char *kCrossEntropyKernels = R"CUDA(
typedef long long Index;

struct float32 {
  typedef float Stored;
  static float widen(Stored x) { return x; }
  static Stored narrow(float x) { return x; }
};
struct bfloat16 {
  typedef unsigned short Stored;
  static float widen(Stored x) {
    return __uint_as_float((unsigned)x << 16);
  }
  static Stored narrow(float x) {
    unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fc0 : (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  }
};
struct float16 {
  typedef unsigned short Stored;
  static float widen(Stored x) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(x));
    return wide;
  }
  static Stored narrow(float x) {
    Stored half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(x));
    return half;
  }
};

// What is loaded at once.
template <typename T> struct alignas(16) Vector {
  static constexpr int count = 16 / sizeof(typename T::Stored);
  typename T::Stored elements[count];
};

#define MINUS_INFINITY __int_as_float(0xff800000)

// Of numbers: the largest, and the sum of e^(x - largest).
struct Exponentials {
  float most, sum;

  // Where all are -inf, nothing can be subtracted.
  static float from(float most) {
    return most == MINUS_INFINITY ? 0 : most;
  }
  template <int count> void add(const float (&numbers)[count]) {
    float largest = most;
    for (int i = 0; i < count; ++i)
      largest = fmaxf(largest, numbers[i]);
    float less = from(largest);
    sum *= expf(most - less);
    for (int i = 0; i < count; ++i)
      sum += expf(numbers[i] - less);
    most = largest;
  }
  void join(float otherMost, float otherSum) {
    float largest = fmaxf(most, otherMost), less = from(largest);
    sum = sum * expf(most - less) + otherSum * expf(otherMost - less);
    most = largest;
  }
  void joinWarp() {
    for (int lanes = 16; lanes; lanes /= 2)
      join(__shfl_xor_sync(~0u, most, lanes), __shfl_xor_sync(~0u, sum, lanes));
  }
};

// The thread's numbers of a row, some at a time: compute(index, numbers).
template <typename T, typename Function>
void forRow(const typename T::Stored *row, Index classes,
                       Index vectors, Function compute) {
  constexpr int count = Vector<T>::count;
  for (Index v = threadIdx.x; v < vectors; v += blockDim.x) {
    Vector<T> vector = reinterpret_cast<const Vector<T> *>(row)[v];
    float numbers[count];
    for (int i = 0; i < count; ++i)
      numbers[i] = T::widen(vector.elements[i]);
    compute(v * count, numbers);
  }
  for (Index j = vectors * count + threadIdx.x; j < classes; j += blockDim.x) {
    float numbers[1] = {T::widen(row[j])};
    compute(j, numbers);
  }
}

template <typename T>
void sums(const typename T::Stored *logits, Index classes,
                     Index vectors, float *logsumexp) {
  Exponentials own = {MINUS_INFINITY, 0};
  forRow<T>(logits + blockIdx.x * classes, classes, vectors,
            [&](Index, const auto &numbers) { own.add(numbers); });
  own.joinWarp();
  __shared__ Exponentials warps[32];
  int lane = threadIdx.x % 32;
  if (lane == 0)
    warps[threadIdx.x / 32] = own;
  __syncthreads();
  if (threadIdx.x >= 32)
    return;
  own = {MINUS_INFINITY, 0};
  if (lane < blockDim.x / 32)
    own = warps[lane];
  own.joinWarp();
  if (lane == 0)
    logsumexp[blockIdx.x] = Exponentials::from(own.most) + logf(own.sum);
}

// As PyTorch's kernels do where a class does not exist.
Index classOf(Index target, Index classes) {
  if (target < 0 || target >= classes)
    __trap();
  return target;
}

template <typename T>
void loss(const typename T::Stored *logits, Index classes,
                     const Index *target, Index rows, Index ignored,
                     bool isMean, const float *logsumexp, float *output,
                     float *totalWeight) {
  double sum = 0;
  Index counted = 0;
  for (Index i = threadIdx.x; i < rows; i += blockDim.x)
    if (target[i] != ignored) {
      Index own = classOf(target[i], classes);
      sum += logsumexp[i] - T::widen(logits[i * classes + own]);
      ++counted;
    }
  __shared__ double loss[1024];
  __shared__ Index count[1024];
  loss[threadIdx.x] = sum;
  count[threadIdx.x] = counted;
  for (unsigned half = 512; half; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half && threadIdx.x + half < blockDim.x) {
      loss[threadIdx.x] += loss[threadIdx.x + half];
      count[threadIdx.x] += count[threadIdx.x + half];
    }
  }
  if (threadIdx.x == 0) {
    *output = isMean ? loss[0] / count[0] : loss[0];
    *totalWeight = count[0];
  }
}

template <typename T>
void backward(const typename T::Stored *logits, Index classes,
                       Index vectors, const Index *target, Index ignored,
                       bool isMean, const float *gradient,
                       const float *totalWeight, const float *logsumexp,
                       typename T::Stored *gradInput) {
  Index row = blockIdx.x, own = target[row];
  bool isIgnored = own == ignored;
  if (!isIgnored)
    classOf(own, classes);
  float scale = isMean ? *gradient / *totalWeight : *gradient;
  float sum = logsumexp[row];
  typename T::Stored *to = gradInput + row * classes;
  auto gradientOf = [&](Index j, float x) {
    float number = (expf(x - sum) - (j == own ? 1.f : 0.f)) * scale;
    return T::narrow(isIgnored ? 0.f : number);
  };
  forRow<T>(logits + row * classes, classes, vectors,
            [&](Index j, const auto &numbers) {
    constexpr int count = sizeof(numbers) / sizeof(float);
    if constexpr (count == 1) {
      to[j] = gradientOf(j, numbers[0]);
    } else {
      Vector<T> vector;
      for (int i = 0; i < count; ++i)
        vector.elements[i] = gradientOf(j + i, numbers[i]);
      *reinterpret_cast<Vector<T> *>(to + j) = vector;
    }
  });
}

#define KERNELS(T)                                                             \
  extern "C" __global__ void sums_##T(const T::Stored *logits, Index classes,  \
                                      Index vectors, float *logsumexp) {       \
    sums<T>(logits, classes, vectors, logsumexp);                              \
  }                                                                            \
  extern "C" __global__ void loss_##T(                                         \
      const T::Stored *logits, Index classes, const Index *target, Index rows, \
      Index ignored, bool isMean, const float *logsumexp, float *output,       \
      float *totalWeight) {                                                    \
    loss<T>(logits, classes, target, rows, ignored, isMean, logsumexp, output, \
            totalWeight);                                                      \
  }                                                                            \
  extern "C" __global__ void backward_##T(                                     \
      const T::Stored *logits, Index classes, Index vectors,                   \
      const Index *target, Index ignored, bool isMean, const float *gradient,  \
      const float *totalWeight, const float *logsumexp, T::Stored *gradInput) {\
    backward<T>(logits, classes, vectors, target, ignored, isMean, gradient,   \
              totalWeight, logsumexp, gradInput);                              \
  }
KERNELS(float32)
KERNELS(bfloat16)
KERNELS(float16)
)CUDA";

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_CROSSENTROPYKERNELS_H

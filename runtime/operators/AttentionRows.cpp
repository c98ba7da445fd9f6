#include "operators/AttentionRows.h"

#include "comm/ReducedPrecision.h"
#include "operators/VectorLoops.h"

#include <ATen/Parallel.h>
#include <algorithm>
#include <cmath>

namespace fsdp {

namespace {

template <typename T>
FSDP_INLINE void write(const float *row, T *to, int64_t count) {
#pragma omp simd
  for (int64_t j = 0; j < count; ++j)
    to[j] = Number<T>::narrow(row[j]);
}

/// Writes a row in the type that it is to have, unless it has it already.
FSDP_INLINE void writeAs(c10::ScalarType type, const float *row, void *matrix,
                         int64_t begin, int64_t count) {
  if (type == c10::kBFloat16)
    write(row, static_cast<c10::BFloat16 *>(matrix) + begin, count);
  else if (type == c10::kHalf)
    write(row, static_cast<c10::Half *>(matrix) + begin, count);
}

/// A row is computed in whole vectors: `count` elements, of which the first
/// `seen` are seen and the others become 0.
FSDP_INLINE float softmaxRow(float *row, int64_t count, int64_t seen,
                             float scale) {
  float most = largestOf(count, [=](int64_t j) {
    float score = row[j] * scale;
    return j < seen ? score : -HUGE_VALF;
  });
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < count; ++j) {
    float power = exponential(row[j] * scale - most);
    row[j] = j < seen ? power : 0;
    sum += row[j];
  }
  float share = 1 / sum;
#pragma omp simd
  for (int64_t j = 0; j < count; ++j)
    row[j] *= share;
  return most + std::log(sum);
}

FSDP_INLINE void backwardRow(float *row, float *gradient, int64_t count,
                             int64_t seen, float scale, float logsumexp) {
  float mean = 0; // of the gradient, weighted by the probabilities
#pragma omp simd reduction(+ : mean)
  for (int64_t j = 0; j < count; ++j) {
    float power = exponential(row[j] * scale - logsumexp);
    row[j] = j < seen ? power : 0;
    mean += j < seen ? row[j] * gradient[j] : 0;
  }
#pragma omp simd
  for (int64_t j = 0; j < count; ++j)
    gradient[j] = j < seen ? row[j] * (gradient[j] - mean) * scale : 0;
}

/// A row of all heads' scores.
struct Row {
  int64_t begin;     // its first element
  int64_t seen;      // how many keys its query sees
  int64_t count;     // of these whole vectors
  int64_t logsumexp; // where that lies

  FSDP_INLINE Row(const AttentionRows &all, int64_t row) {
    constexpr int64_t lanes = 16;
    int64_t head = row / all.queries, query = row % all.queries;
    begin = row * all.keys;
    seen = all.isCausal ? std::min(query + 1, all.keys) : all.keys;
    count = std::min((seen + lanes - 1) / lanes * lanes, all.keys);
    logsumexp = head * all.headStride + query * all.queryStride;
  }
};

FSDP_INLINE void softmaxRows(const AttentionRows &all, int64_t first,
                             int64_t last, float *scores, void *probabilities,
                             float *logsumexp) {
  for (int64_t i = first; i < last; ++i) {
    Row row(all, i);
    float *elements = scores + row.begin;
    logsumexp[row.logsumexp] =
        softmaxRow(elements, row.count, row.seen, all.scale);
    std::fill(elements + row.count, elements + all.keys, 0.f);
    writeAs(all.type, elements, probabilities, row.begin, all.keys);
  }
}

FSDP_INLINE void backwardRows(const AttentionRows &all, int64_t first,
                              int64_t last, float *scores, float *gradients,
                              const float *logsumexp, void *probabilities,
                              void *scoreGradients) {
  for (int64_t i = first; i < last; ++i) {
    Row row(all, i);
    float *elements = scores + row.begin, *gradient = gradients + row.begin;
    backwardRow(elements, gradient, row.count, row.seen, all.scale,
                logsumexp[row.logsumexp]);
    std::fill(elements + row.count, elements + all.keys, 0.f);
    std::fill(gradient + row.count, gradient + all.keys, 0.f);
    writeAs(all.type, elements, probabilities, row.begin, all.keys);
    writeAs(all.type, gradient, scoreGradients, row.begin, all.keys);
  }
}

#ifdef __x86_64__
__attribute__((target("avx2,fma"))) void
softmaxWide(const AttentionRows &all, int64_t first, int64_t last,
            float *scores, void *probabilities, float *logsumexp) {
  softmaxRows(all, first, last, scores, probabilities, logsumexp);
}
__attribute__((target("avx2,fma"))) void
backwardWide(const AttentionRows &all, int64_t first, int64_t last,
             float *scores, float *gradients, const float *logsumexp,
             void *probabilities, void *scoreGradients) {
  backwardRows(all, first, last, scores, gradients, logsumexp, probabilities,
               scoreGradients);
}
#else
constexpr auto softmaxWide = softmaxRows;
constexpr auto backwardWide = backwardRows;
#endif

/// A thread is worth its start for some ten thousand scores.
template <typename Function>
void forRows(const AttentionRows &all, Function compute) {
  constexpr int64_t scoresPerThread = 16384;
  at::parallel_for(0, all.heads * all.queries,
                   std::max<int64_t>(1, scoresPerThread / all.keys), compute);
}

} // namespace

void AttentionRows::softmax(float *scores, void *probabilities,
                            float *logsumexp) const {
  auto compute = hasWideVectors() ? softmaxWide : softmaxRows;
  forRows(*this, [&](int64_t first, int64_t last) {
    compute(*this, first, last, scores, probabilities, logsumexp);
  });
}

void AttentionRows::backward(float *scores, float *gradients,
                             const float *logsumexp, void *probabilities,
                             void *scoreGradients) const {
  auto compute = hasWideVectors() ? backwardWide : backwardRows;
  forRows(*this, [&](int64_t first, int64_t last) {
    compute(*this, first, last, scores, gradients, logsumexp, probabilities,
            scoreGradients);
  });
}

} // namespace fsdp

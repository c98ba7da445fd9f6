// What attention computes between its matrix products, row by row.
#ifndef FSDP_RUNTIME_OPERATORS_ATTENTIONROWS_H
#define FSDP_RUNTIME_OPERATORS_ATTENTIONROWS_H

#include <c10/core/ScalarType.h>
#include <cstdint>

namespace fsdp {

/// The scores of some heads: of each a row for each query, a column for each
/// key. Where it is causal, a query sees the keys up to its own place.
struct AttentionRows {
  int64_t heads, queries, keys;
  float scale;
  bool isCausal;
  /// float32, or a type of 16 bits: what probabilities and their gradients are
  /// written in.
  c10::ScalarType type;
  /// Where the logarithms of the heads' sums lie, in elements.
  int64_t headStride, queryStride;

  /// Of `scores` [heads, queries, keys], which are overwritten: the softmax of
  /// each row times `scale`, and the logarithm of its sum of exponentials.
  /// `probabilities`: the same shape, of `type`; of float32 they are written
  /// over the scores, and it is not read.
  void softmax(float *scores, void *probabilities, float *logsumexp) const;

  /// Backward: of `scores` and of `gradients`, those of the probabilities, both
  /// of which are overwritten: the probabilities again, and the scores'
  /// gradients. In the places that `softmax` would take, likewise.
  void backward(float *scores, float *gradients, const float *logsumexp,
                void *probabilities, void *scoreGradients) const;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_ATTENTIONROWS_H

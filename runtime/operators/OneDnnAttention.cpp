// Attention by oneDNN's matrix products over whole heads. ATen's multiplies
// blocks of 32 queries instead, which keeps few scores in memory, and in types
// of 16 bits it looks each product's kernel up anew.

#include "operators/AttentionOperands.h"
#include "operators/AttentionRows.h"
#include "operators/OneDnnPrimitives.h"
#include "operators/Operators.h"

#include <ATen/ops/empty.h>
#include <cmath>

namespace fsdp {

namespace {

/// Scores of small heads are computed together: one product has less to look up
/// than several. Larger ones would leave the first cache (measured).
constexpr int64_t scoresTogether = 8192;

/// The heads of a call, some at a time. Tensors: [batch, heads, length, size].
struct Heads {
  int64_t batch, heads, together, queries, keys, size;
  float scale;
  bool isCausal;
  at::ScalarType type;

  Heads(const at::Tensor &query, const at::Tensor &key, const at::Tensor &value,
        double dropout, bool isCausal, const std::optional<at::Tensor> &mask,
        std::optional<double> givenScale)
      : isCausal(isCausal), type(query.scalar_type()) {
    checkAttention(query, key, value, dropout, mask);
    batch = query.size(0), heads = query.size(1), queries = query.size(2),
    keys = key.size(2), size = query.size(3);
    scale = float(givenScale.value_or(1 / std::sqrt(double(size))));
    together = heads;
    while (together > 1 && (heads % together != 0 ||
                            together * queries * keys > scoresTogether))
      --together;
  }

  AttentionRows rows(const at::Tensor &logsumexp) const {
    return {together,
            queries,
            keys,
            scale,
            isCausal,
            type,
            logsumexp.stride(1),
            logsumexp.stride(2)};
  }

  /// Of the heads that are computed together, of a tensor of all.
  TensorLayout layout(const at::Tensor &all) const {
    return {all.scalar_type(),
            {together, all.size(2), all.size(3)},
            {all.stride(1), all.stride(2), all.stride(3)}};
  }
  /// What lies between the products, and of it what a product takes: the same
  /// memory where that is of the same type.
  at::Tensor scores() const {
    return at::empty({together, queries, keys}, at::kFloat);
  }
  at::Tensor operand(const at::Tensor &scores) const {
    return type == at::kFloat ? scores : at::empty(scores.sizes(), type);
  }

  /// As ATen's: heads of the same place lie together.
  at::Tensor result(int64_t length, const at::Tensor &like) const {
    return at::empty({batch, length, heads, size}, like.options())
        .transpose(1, 2);
  }

  /// For the first of the heads that are computed together.
  template <typename Function> void forEach(Function compute) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t h = 0; h < heads; h += together)
        compute([&](const at::Tensor &all) { return headOf(all, b, h); });
  }

private:
  /// Where a head begins.
  static void *headOf(const at::Tensor &all, int64_t b, int64_t h) {
    int64_t elements = b * all.stride(0) + h * all.stride(1);
    return static_cast<char *>(all.data_ptr()) +
           elements * int64_t(all.element_size());
  }
};

} // namespace

std::tuple<at::Tensor, at::Tensor>
attentionOneDnnPrimitive(const at::Tensor &query, const at::Tensor &key,
                         const at::Tensor &value, double dropout, bool isCausal,
                         const std::optional<at::Tensor> &mask,
                         std::optional<double> scale) {
  Heads heads(query, key, value, dropout, isCausal, mask, scale);
  at::Tensor output = heads.result(heads.queries, query);
  at::Tensor logsumexp = at::empty({heads.batch, heads.queries, heads.heads},
                                   query.options().dtype(at::kFloat))
                             .transpose(1, 2);
  at::Tensor scores = heads.scores(), probabilities = heads.operand(scores);
  AttentionRows rows = heads.rows(logsumexp);
  TensorLayout keys = heads.layout(key).transposed();
  auto &queryKey = PrimitiveProduct::get(heads.layout(query), keys,
                                         TensorLayout::of(scores));
  auto &weighted =
      PrimitiveProduct::get(TensorLayout::of(probabilities),
                            heads.layout(value), heads.layout(output));
  heads.forEach([&](auto headsOf) {
    queryKey.run(headsOf(query), headsOf(key), scores.data_ptr());
    rows.softmax(scores.data_ptr<float>(), probabilities.data_ptr(),
                 static_cast<float *>(headsOf(logsumexp)));
    weighted.run(probabilities.data_ptr(), headsOf(value), headsOf(output));
  });
  return {output, logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attentionBackwardOneDnnPrimitive(
    const at::Tensor &gradient, const at::Tensor &query, const at::Tensor &key,
    const at::Tensor &value, const at::Tensor &output,
    const at::Tensor &logsumexp, double dropout, bool isCausal,
    const std::optional<at::Tensor> &mask, std::optional<double> scale) {
  Heads heads(query, key, value, dropout, isCausal, mask, scale);
  checkAttentionGradient(gradient, query, output, logsumexp);
  at::Tensor gradQuery = heads.result(heads.queries, query),
             gradKey = heads.result(heads.keys, query),
             gradValue = heads.result(heads.keys, query);
  at::Tensor scores = heads.scores(), gradients = heads.scores(),
             probabilities = heads.operand(scores),
             scoreGradients = heads.operand(gradients);
  AttentionRows rows = heads.rows(logsumexp);
  TensorLayout ofScores = TensorLayout::of(scores),
               operand = TensorLayout::of(probabilities);
  auto &queryKey = PrimitiveProduct::get(
      heads.layout(query), heads.layout(key).transposed(), ofScores);
  auto &ofProbabilities = PrimitiveProduct::get(
      heads.layout(gradient), heads.layout(value).transposed(), ofScores);
  auto &ofValue = PrimitiveProduct::get(
      operand.transposed(), heads.layout(gradient), heads.layout(gradValue));
  auto &ofQuery = PrimitiveProduct::get(operand, heads.layout(key),
                                        heads.layout(gradQuery));
  auto &ofKey = PrimitiveProduct::get(operand.transposed(), heads.layout(query),
                                      heads.layout(gradKey));
  heads.forEach([&](auto headsOf) {
    queryKey.run(headsOf(query), headsOf(key), scores.data_ptr());
    ofProbabilities.run(headsOf(gradient), headsOf(value),
                        gradients.data_ptr());
    rows.backward(scores.data_ptr<float>(), gradients.data_ptr<float>(),
                  static_cast<const float *>(headsOf(logsumexp)),
                  probabilities.data_ptr(), scoreGradients.data_ptr());
    ofValue.run(probabilities.data_ptr(), headsOf(gradient),
                headsOf(gradValue));
    ofQuery.run(scoreGradients.data_ptr(), headsOf(key), headsOf(gradQuery));
    ofKey.run(scoreGradients.data_ptr(), headsOf(query), headsOf(gradKey));
  });
  return {gradQuery, gradKey, gradValue};
}

} // namespace fsdp

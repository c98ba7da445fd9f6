#include "operators/AttentionOperands.h"

namespace fsdp {

void checkAttention(const at::Tensor &query, const at::Tensor &key,
                    const at::Tensor &value, double dropout,
                    const std::optional<at::Tensor> &mask) {
  TORCH_CHECK(dropout == 0 && !(mask && mask->defined()),
              "this attention has neither dropout nor a mask");
  TORCH_CHECK(
      query.dim() == 4 && key.dim() == 4 && key.sizes() == value.sizes() &&
          query.size(0) == key.size(0) && query.size(1) == key.size(1) &&
          query.size(3) == key.size(3) && query.numel() > 0 && key.numel() > 0,
      "queries of ", query.sizes(), ", keys of ", key.sizes(),
      " and values of ", value.sizes(), " have no attention");
  TORCH_CHECK(query.scalar_type() == key.scalar_type() &&
                  query.scalar_type() == value.scalar_type(),
              "queries, keys and values are of one type in attention");
}

void checkAttentionGradient(const at::Tensor &gradient, const at::Tensor &query,
                            const at::Tensor &output,
                            const at::Tensor &logsumexp) {
  auto isLikeQuery = [&](const at::Tensor &tensor) {
    return tensor.sizes() == query.sizes() &&
           tensor.scalar_type() == query.scalar_type();
  };
  TORCH_CHECK(isLikeQuery(gradient) && isLikeQuery(output) &&
                  logsumexp.scalar_type() == at::kFloat &&
                  logsumexp.sizes() == query.sizes().slice(0, 3),
              "a gradient of ", gradient.sizes(), ", an output of ",
              output.sizes(), " and logsumexp of ", logsumexp.sizes(),
              " are not those of queries of ", query.sizes());
}

} // namespace fsdp

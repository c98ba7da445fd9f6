#include "operators/Operators.h"

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <mutex>

namespace fsdp {

std::tuple<at::Tensor, at::Tensor, at::Tensor>
flashAttention(const at::Tensor &query, const at::Tensor &key,
               const at::Tensor &value, double dropout, bool isCausal,
               std::optional<double> scale,
               std::optional<at::Generator> generator) {
  // PyTorch's operator takes none: the device's is made to share its state.
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  if (generator) {
    at::Generator own = at::globalContext().defaultGenerator(query.device());
    own.graphsafe_set_state(*generator);
  }
  auto results = at::_scaled_dot_product_flash_attention(
      query, key, value, dropout, isCausal, /*return_debug_mask=*/false, scale);
  // It is of uint64, which no other operator takes.
  return {std::get<0>(results), std::get<1>(results),
          std::get<6>(results).view(at::kLong)};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor>
flashAttentionBackward(const at::Tensor &gradient, const at::Tensor &query,
                       const at::Tensor &key, const at::Tensor &value,
                       const at::Tensor &output, const at::Tensor &logsumexp,
                       const at::Tensor &state, double dropout, bool isCausal,
                       std::optional<double> scale) {
  at::Tensor drawn = state.view(at::kUInt64), none;
  return at::_scaled_dot_product_flash_attention_backward(
      gradient, query, key, value, output, logsumexp, none, none, query.size(2),
      key.size(2), dropout, isCausal, drawn, none, scale);
}

} // namespace fsdp

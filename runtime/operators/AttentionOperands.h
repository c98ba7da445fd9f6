// What attention is computed of.
#ifndef FSDP_RUNTIME_OPERATORS_ATTENTIONOPERANDS_H
#define FSDP_RUNTIME_OPERATORS_ATTENTIONOPERANDS_H

#include <ATen/core/Tensor.h>
#include <optional>

namespace fsdp {

/// A plan's types say what the operands are; a forged one's may not. Throws
/// c10::Error unless query is [batch, heads, queries, size], key and value
/// [batch, heads, keys, size] of the same dtype, none of them empty, and there
/// are neither dropout nor a mask.
void checkAttention(const at::Tensor &query, const at::Tensor &key,
                    const at::Tensor &value, double dropout,
                    const std::optional<at::Tensor> &mask);

/// Throws c10::Error unless gradient and output are shaped and typed as such a
/// query, and logsumexp is float32 [batch, heads, queries].
void checkAttentionGradient(const at::Tensor &gradient, const at::Tensor &query,
                            const at::Tensor &output,
                            const at::Tensor &logsumexp);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_ATTENTIONOPERANDS_H

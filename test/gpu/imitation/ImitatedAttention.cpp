// PyTorch's attention kernels for GPUs, computed on a CPU: softmax(q k^T scale)
// v, with what they leave for their backward. Without dropout.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <cmath>
#include <torch/library.h>

namespace fsdp::imitation {

namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;
using MaybeScale = std::optional<double>;

struct Attention {
  const Tensor &q, &k, &v; // batch, heads, length, width
  MaybeTensor bias;
  bool causal;
  double scale;

  Attention(const Tensor &q, const Tensor &k, const Tensor &v,
            const MaybeTensor &bias, double dropout, bool causal,
            MaybeScale scale)
      : q(q), k(k), v(v), bias(bias), causal(causal),
        scale(scale.value_or(1 / std::sqrt(q.size(-1)))) {
    TORCH_CHECK(dropout == 0, "attention with dropout is not imitated");
  }

  Tensor scores() const {
    Tensor scores = at::matmul(q.to(at::kFloat), keys().transpose(-2, -1));
    scores = scores * scale;
    if (bias && bias->defined())
      scores = scores + *bias;
    if (causal)
      scores = scores.masked_fill(
          at::ones({q.size(2), k.size(2)}, at::kBool).tril().logical_not(),
          -INFINITY);
    return scores;
  }
  Tensor keys() const { return k.to(at::kFloat); }

  /// The result, and the logarithm of each row's sum.
  std::pair<Tensor, Tensor> forward() const {
    Tensor rows = scores(), sums = rows.logsumexp(-1);
    Tensor out =
        at::matmul((rows - sums.unsqueeze(-1)).exp(), v.to(at::kFloat));
    return {asKernel(out), sums};
  }

  /// Gradients of q, k, v and the bias.
  std::tuple<Tensor, Tensor, Tensor, Tensor>
  backward(const Tensor &gradient, const Tensor &out,
           const Tensor &sums) const {
    Tensor g = gradient.to(at::kFloat);
    Tensor rows = (scores() - sums.unsqueeze(-1)).exp();
    Tensor inner = (g * out.to(at::kFloat)).sum(-1, /*keepdim=*/true);
    Tensor ofRows =
        rows * (at::matmul(g, v.to(at::kFloat).transpose(-2, -1)) - inner);
    Tensor scaled = ofRows * scale;
    return {asKernel(at::matmul(scaled, keys())),
            asKernel(at::matmul(scaled.transpose(-2, -1), q.to(at::kFloat))),
            asKernel(at::matmul(rows.transpose(-2, -1), g)), ofRows};
  }

  /// In memory the heads come behind the length.
  Tensor asKernel(const Tensor &t) const {
    return t.to(q.scalar_type()).transpose(1, 2).contiguous().transpose(1, 2);
  }
};

Tensor noNumber() { return at::zeros({}, at::kLong); }

std::tuple<Tensor, Tensor, Tensor, Tensor>
efficient(const Tensor &q, const Tensor &k, const Tensor &v,
          const MaybeTensor &bias, bool, double dropout, bool causal,
          MaybeScale scale) {
  auto [out, sums] = Attention(q, k, v, bias, dropout, causal, scale).forward();
  // The kernel's rows of sums are whole multiples of 32.
  int64_t padding = (32 - q.size(2) % 32) % 32;
  return {out, at::constant_pad_nd(sums, {0, padding}), noNumber(), noNumber()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor>
efficientBackward(const Tensor &gradient, const Tensor &q, const Tensor &k,
                  const Tensor &v, const Tensor &bias, const Tensor &out,
                  const Tensor &sums, const Tensor &, const Tensor &,
                  double dropout, std::array<bool, 4>, bool causal,
                  MaybeScale scale) {
  return Attention(q, k, v, bias, dropout, causal, scale)
      .backward(gradient, out, sums.narrow(-1, 0, q.size(2)));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor,
           Tensor, Tensor>
flash(const Tensor &q, const Tensor &k, const Tensor &v, double dropout,
      bool causal, bool, MaybeScale scale) {
  auto [out, sums] =
      Attention(q, k, v, std::nullopt, dropout, causal, scale).forward();
  return {out,
          sums,
          Tensor(),
          Tensor(),
          q.size(2),
          k.size(2),
          at::zeros({2}, at::kUInt64),
          at::zeros({}, at::kUInt64),
          Tensor()};
}

std::tuple<Tensor, Tensor, Tensor>
flashBackward(const Tensor &gradient, const Tensor &q, const Tensor &k,
              const Tensor &v, const Tensor &out, const Tensor &sums,
              const Tensor &, const Tensor &, c10::SymInt, c10::SymInt,
              double dropout, bool causal, const Tensor &, const Tensor &,
              MaybeScale scale) {
  auto [ofQ, ofK, ofV, ofBias] =
      Attention(q, k, v, std::nullopt, dropout, causal, scale)
          .backward(gradient, out, sums);
  return {ofQ, ofK, ofV};
}

TORCH_LIBRARY_IMPL(aten, CPU, library) {
  library.impl("_scaled_dot_product_efficient_attention", &efficient);
  library.impl("_scaled_dot_product_efficient_attention_backward",
               &efficientBackward);
  library.impl("_scaled_dot_product_flash_attention", &flash);
  library.impl("_scaled_dot_product_flash_attention_backward", &flashBackward);
}

} // namespace

} // namespace fsdp::imitation

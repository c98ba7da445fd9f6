// Products of types of 16 bits by float32's kernels, for processors that do not
// multiply such numbers: PyTorch's own kernels take them one by one there.

#include "operators/AttentionOperands.h"
#include "operators/Operators.h"

#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/mm.h>

namespace fsdp {

/// Operands of one type of 16 bits, in float32: none of their bits is lost.
class Widened {
public:
  explicit Widened(const at::Tensor &first) : type(first.scalar_type()) {
    TORCH_CHECK(type == at::kBFloat16 || type == at::kHalf,
                "float32's kernels stand in for types of 16 bits, not for ",
                type);
  }

  at::Tensor operator()(const at::Tensor &operand) const {
    TORCH_CHECK(operand.scalar_type() == type, "operands of ", type, " and ",
                operand.scalar_type(), " have no product");
    return operand.to(at::kFloat);
  }
  /// Rounds a result, once, where it is there.
  at::Tensor narrow(const at::Tensor &result) const {
    return result.defined() ? result.to(type) : result;
  }

private:
  at::ScalarType type;
};

at::Tensor mmWidened(const at::Tensor &self, const at::Tensor &mat2) {
  Widened widen(self);
  return widen.narrow(at::mm(widen(self), widen(mat2)));
}

at::Tensor bmmWidened(const at::Tensor &self, const at::Tensor &mat2) {
  Widened widen(self);
  return widen.narrow(at::bmm(widen(self), widen(mat2)));
}

at::Tensor addmmWidened(const at::Tensor &bias, const at::Tensor &mat1,
                        const at::Tensor &mat2) {
  Widened widen(mat1);
  return widen.narrow(at::addmm(widen(bias), widen(mat1), widen(mat2)));
}

at::Tensor convolutionWidened(const at::Tensor &input, const at::Tensor &weight,
                              const std::optional<at::Tensor> &bias,
                              at::IntArrayRef stride, at::IntArrayRef padding,
                              at::IntArrayRef dilation, bool transposed,
                              at::IntArrayRef outputPadding, int64_t groups) {
  Widened widen(input);
  std::optional<at::Tensor> wideBias;
  if (bias && bias->defined())
    wideBias = widen(*bias);
  return widen.narrow(at::convolution(widen(input), widen(weight), wideBias,
                                      stride, padding, dilation, transposed,
                                      outputPadding, groups));
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolutionBackwardWidened(
    const at::Tensor &gradient, const at::Tensor &input,
    const at::Tensor &weight, at::OptionalIntArrayRef biasSizes,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
    bool transposed, at::IntArrayRef outputPadding, int64_t groups,
    std::array<bool, 3> mask) {
  Widened widen(input);
  auto [gradInput, gradWeight, gradBias] = at::convolution_backward(
      widen(gradient), widen(input), widen(weight), biasSizes, stride, padding,
      dilation, transposed, outputPadding, groups, mask);
  return {widen.narrow(gradInput), widen.narrow(gradWeight),
          widen.narrow(gradBias)};
}

std::tuple<at::Tensor, at::Tensor>
attentionWidened(const at::Tensor &query, const at::Tensor &key,
                 const at::Tensor &value, double dropout, bool isCausal,
                 const std::optional<at::Tensor> &mask,
                 std::optional<double> scale) {
  checkAttention(query, key, value, dropout, mask);
  Widened widen(query);
  auto [output, logsumexp] = at::_scaled_dot_product_flash_attention_for_cpu(
      widen(query), widen(key), widen(value), dropout, isCausal, mask, scale);
  return {widen.narrow(output), logsumexp};
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> attentionBackwardWidened(
    const at::Tensor &gradient, const at::Tensor &query, const at::Tensor &key,
    const at::Tensor &value, const at::Tensor &output,
    const at::Tensor &logsumexp, double dropout, bool isCausal,
    const std::optional<at::Tensor> &mask, std::optional<double> scale) {
  checkAttention(query, key, value, dropout, mask);
  checkAttentionGradient(gradient, query, output, logsumexp);
  Widened widen(query);
  auto [gradQuery, gradKey, gradValue] =
      at::_scaled_dot_product_flash_attention_for_cpu_backward(
          widen(gradient), widen(query), widen(key), widen(value),
          widen(output), logsumexp, dropout, isCausal, mask, scale);
  return {widen.narrow(gradQuery), widen.narrow(gradKey),
          widen.narrow(gradValue)};
}

} // namespace fsdp

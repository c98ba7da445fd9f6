// Of a model's layers, norms and attention, and of fused optimizers.
#include "plan/operands/Operands.h"

using namespace fsdp::plan;

namespace {

bool isSoftmaxBackward(const Operands &of) {
  return of.haveSameShape({"grad_output", "output"});
}

bool isLayerNormBackward(const Operands &of) {
  Shape input = of.shape("input"), inner = of.integers("normalized_shape");
  Shape rows = leading(input, inner.size());
  rows.resize(input.size(), 1);
  auto isParameter = [&](std::string_view name) {
    return !of.has(name) || of.shape(name) == inner;
  };
  return inner.size() <= input.size() && last(input, inner.size()) == inner &&
         of.haveSameShape({"grad_out", "input"}) && of.shape("mean") == rows &&
         of.shape("rstd") == rows && isParameter("weight") &&
         isParameter("bias");
}

/// What there is once for each channel of the input.
bool isBatchNorm(const Operands &of) {
  Shape input = of.shape("input");
  return input.size() >= 2 && isPositive(input) &&
         of.haveSameShape({"grad_out", "grad_output", "input"}) &&
         of.haveElements(input[1],
                         {"weight", "bias", "running_mean", "running_var"});
}

bool isBatchNormBackward(const Operands &of) {
  return isBatchNorm(of) &&
         of.haveElements(of.shape("input")[1], {"save_mean", "save_var"});
}

/// In `eval()` forward saves nothing, and backward reads the running
/// statistics.
bool isNativeBatchNormBackward(const Operands &of) {
  bool isEval =
      of.isFalse("train") && of.has("running_mean") && of.has("running_var");
  return isBatchNorm(of) &&
         (isEval ||
          of.haveElements(of.shape("input")[1], {"save_mean", "save_invstd"}));
}

bool isAttention(const Operands &of) {
  Shape q = of.shape("query"), k = of.shape("key"), v = of.shape("value");
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || !isPositive(q) ||
      !isPositive(k) || !isPositive(v))
    return false;
  bool fits = q[0] == k[0] && q[1] % k[1] == 0 && q[3] == k[3] &&
              v == Shape{k[0], k[1], k[2], v[3]};
  Shape mask = of.shape("attn_mask"), all = {q[0], q[1], q[2], k[2]};
  fits = fits && mask.size() <= 4;
  for (size_t i = 0; fits && i < mask.size(); ++i)
    fits = mask[mask.size() - 1 - i] == 1 ||
           mask[mask.size() - 1 - i] == all[3 - i];
  return fits;
}
bool isAttentionBackward(const Operands &of) {
  if (!isAttention(of))
    return false;
  Shape q = of.shape("query"), v = of.shape("value");
  return of.shape("out") == Shape{q[0], q[1], q[2], v[3]} &&
         of.haveSameShape({"grad_out", "out"}) &&
         of.shape("logsumexp") == Shape{q[0], q[1], q[2]};
}

/// What dropout drew from is two integers.
bool isDroppingAttentionBackward(const Operands &of) {
  return isAttentionBackward(of) && of.shape("state") == Shape{2};
}

bool isWeightNormBackward(const Operands &of) {
  Shape v = of.shape("saved_v");
  int64_t dim = of.integer("dim").value_or(-1);
  return !v.empty() && (dim == 0 || dim == int64_t(v.size()) - 1) &&
         of.haveSameShape({"grad_w", "saved_v"}) &&
         of.haveElements(v[dim], {"saved_g", "saved_norms"});
}

/// Every list has as many tensors of one shape; but for the steps, which are
/// numbers.
bool isFusedStep(const Operands &of) {
  std::vector<Shape> first = of.shapes("self");
  for (const char *name :
       {"grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs",
        "momentum_buffer_list", "state_sums"})
    if (std::vector<Shape> list = of.shapes(name);
        !list.empty() && list != first)
      return false;
  return of.haveElements(1, {"grad_scale", "found_inf"});
}

constexpr Contract layerRows[] = {
    {"aten::_log_softmax_backward_data", isSoftmaxBackward},
    {"aten::_softmax_backward_data", isSoftmaxBackward},
    {"aten::native_layer_norm_backward", isLayerNormBackward},
    {"aten::native_batch_norm_backward", isNativeBatchNormBackward},
    {"aten::batch_norm_backward", isBatchNormBackward},
    {"aten::_native_batch_norm_legit", isBatchNorm},
    {"aten::_native_batch_norm_legit_functional", isBatchNorm},
    {"aten::_native_batch_norm_legit_no_training", isBatchNorm},
    {"aten::_batch_norm_no_update", isBatchNorm},
    {"aten::_batch_norm_with_update_functional", isBatchNorm},
    {"aten::_scaled_dot_product_flash_attention_for_cpu", isAttention},
    {"aten::_scaled_dot_product_flash_attention_for_cpu_backward",
     isAttentionBackward},
    {"aten::_weight_norm_interface_backward", isWeightNormBackward},
    {"aten::_fused_adam", isFusedStep},
    {"aten::_fused_adamw", isFusedStep},
    {"aten::_fused_sgd", isFusedStep},
    {"aten::_fused_adagrad", isFusedStep},
    // On GPUs, where the kernel has addresses alone.
    {"aten::_scaled_dot_product_flash_attention_backward", isAttentionBackward},
    {"fsdp_mlir::flash_attention_backward", isDroppingAttentionBackward},
};

} // namespace

const Contracts fsdp::plan::layerContracts = layerRows;

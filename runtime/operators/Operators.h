#ifndef FSDP_RUNTIME_OPERATORS_OPERATORS_H
#define FSDP_RUNTIME_OPERATORS_OPERATORS_H

#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <array>
#include <optional>
#include <tuple>

namespace fsdp {

/// Makes PyTorch's dispatcher know the operators of Operators.def by their
/// schemas; one that Python has defined in this process already, it leaves.
/// Does nothing when called again.
void defineOperators();

/// The same of those that archives alone call. Does nothing when called again.
void defineCapturedOperators();

/// The same, with their kernels. Does nothing when called again.
void registerOperators();

/// See Operators.def. The same bits for every number of threads; tensors whose
/// elements are sorted into other tensors give another rounding, no more.
/// Throws c10::Error for dtypes that are no floating-point numbers.
at::Tensor powerSum(at::TensorList tensors, double p);

/// The same on any device, by PyTorch's norms: what runs on GPUs. Each tensor's
/// elements are added up in an order that its size alone decides, the tensors'
/// sums in the order of the list, so that the same plan has the same bits.
/// Nothing of it waits for the device.
at::Tensor powerSumOfNorms(at::TensorList tensors, double p);

/// See Operators.def. [m, k] by [k, n], or [batch, m, k] by [batch, k, n].
/// Throw c10::Error for other dtypes than float32, and where oneDNN's kernels
/// want a processor with AVX-512 and this has none.
at::Tensor mmOneDnn(const at::Tensor &self, const at::Tensor &mat2);
at::Tensor mmOneDnnLinear(const at::Tensor &self, const at::Tensor &mat2);
at::Tensor bmmOneDnn(const at::Tensor &self, const at::Tensor &mat2);
/// The same, with `bias` [n] added to each row.
at::Tensor addmmOneDnn(const at::Tensor &bias, const at::Tensor &mat1,
                       const at::Tensor &mat2);
at::Tensor addmmOneDnnLinear(const at::Tensor &bias, const at::Tensor &mat1,
                             const at::Tensor &mat2);

/// See Operators.def. As the three above. Throw c10::Error for dtypes that
/// oneDNN does not multiply on this processor, and where there is no oneDNN.
at::Tensor mmOneDnnPrimitive(const at::Tensor &self, const at::Tensor &mat2);
at::Tensor bmmOneDnnPrimitive(const at::Tensor &self, const at::Tensor &mat2);
at::Tensor addmmOneDnnPrimitive(const at::Tensor &bias, const at::Tensor &mat1,
                                const at::Tensor &mat2);

/// See Operators.def. Query [batch, heads, queries, size], key and value
/// [batch, heads, keys, size]; `scale`: 1 / sqrt(size) where there is none.
/// Throw c10::Error as the three above, and with dropout or a mask.
std::tuple<at::Tensor, at::Tensor>
attentionOneDnnPrimitive(const at::Tensor &query, const at::Tensor &key,
                         const at::Tensor &value, double dropout, bool isCausal,
                         const std::optional<at::Tensor> &mask,
                         std::optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor> attentionBackwardOneDnnPrimitive(
    const at::Tensor &gradient, const at::Tensor &query, const at::Tensor &key,
    const at::Tensor &value, const at::Tensor &output,
    const at::Tensor &logsumexp, double dropout, bool isCausal,
    const std::optional<at::Tensor> &mask, std::optional<double> scale);

/// See Operators.def. As those of oneDNN's primitives, in bfloat16 and float16.
/// Throw c10::Error for other dtypes, and for operands of several.
at::Tensor mmWidened(const at::Tensor &self, const at::Tensor &mat2);
at::Tensor bmmWidened(const at::Tensor &self, const at::Tensor &mat2);
at::Tensor addmmWidened(const at::Tensor &bias, const at::Tensor &mat1,
                        const at::Tensor &mat2);
at::Tensor convolutionWidened(const at::Tensor &input, const at::Tensor &weight,
                              const std::optional<at::Tensor> &bias,
                              at::IntArrayRef stride, at::IntArrayRef padding,
                              at::IntArrayRef dilation, bool transposed,
                              at::IntArrayRef outputPadding, int64_t groups);
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolutionBackwardWidened(
    const at::Tensor &gradient, const at::Tensor &input,
    const at::Tensor &weight, at::OptionalIntArrayRef biasSizes,
    at::IntArrayRef stride, at::IntArrayRef padding, at::IntArrayRef dilation,
    bool transposed, at::IntArrayRef outputPadding, int64_t groups,
    std::array<bool, 3> mask);
std::tuple<at::Tensor, at::Tensor>
attentionWidened(const at::Tensor &query, const at::Tensor &key,
                 const at::Tensor &value, double dropout, bool isCausal,
                 const std::optional<at::Tensor> &mask,
                 std::optional<double> scale);
std::tuple<at::Tensor, at::Tensor, at::Tensor> attentionBackwardWidened(
    const at::Tensor &gradient, const at::Tensor &query, const at::Tensor &key,
    const at::Tensor &value, const at::Tensor &output,
    const at::Tensor &logsumexp, double dropout, bool isCausal,
    const std::optional<at::Tensor> &mask, std::optional<double> scale);

/// See Operators.def. Logits [rows, classes], row-major; target int64 [rows].
/// The output and total weight are numbers in float32, logsumexp is float32
/// [rows]. The CPU's kernels: libfsdp_cuda_kernels has those of GPUs. Throw
/// c10::Error for operands that do not fit, and for a class that does not
/// exist.
std::tuple<at::Tensor, at::Tensor, at::Tensor>
crossEntropy(const at::Tensor &logits, const at::Tensor &target,
             int64_t reduction, int64_t ignoreIndex);
/// The gradient of the logits, in their type.
at::Tensor crossEntropyBackward(const at::Tensor &gradient,
                                const at::Tensor &logits,
                                const at::Tensor &target, int64_t reduction,
                                int64_t ignoreIndex,
                                const at::Tensor &totalWeight,
                                const at::Tensor &logsumexp);

/// See Operators.def. Costs of any real type, [rows, columns]; the results are
/// int64 [min(rows, columns)]. Throws c10::Error for another shape, for NaN,
/// for costs of -infinity (of infinity, where it maximizes), and where all
/// assignments cost infinitely much. Cubic in the smaller dimension.
std::tuple<at::Tensor, at::Tensor> linearSumAssignment(const at::Tensor &cost,
                                                       bool maximize);

/// See Operators.def. Boxes [n, 4] in float32 or float64, as x1, y1, x2, y2;
/// scores and classes [n]; a count is one number. The places are int64 [n],
/// zero where nothing is kept, and kept is [n] truth values. Throws c10::Error
/// for other shapes and dtypes. Quadratic in n.
std::tuple<at::Tensor, at::Tensor>
batchedNms(const at::Tensor &boxes, const at::Tensor &scores,
           const at::Tensor &classes, const std::optional<at::Tensor> &count,
           double threshold);

/// See Operators.def. Output [batch, heads, length, size], logsumexp [batch,
/// heads, length], state int64 [2]. While it launches, the device's default
/// generator is the one given: ranks that are threads wait for each other.
std::tuple<at::Tensor, at::Tensor, at::Tensor>
flashAttention(const at::Tensor &query, const at::Tensor &key,
               const at::Tensor &value, double dropout, bool isCausal,
               std::optional<double> scale,
               std::optional<at::Generator> generator);
std::tuple<at::Tensor, at::Tensor, at::Tensor>
flashAttentionBackward(const at::Tensor &gradient, const at::Tensor &query,
                       const at::Tensor &key, const at::Tensor &value,
                       const at::Tensor &output, const at::Tensor &logsumexp,
                       const at::Tensor &state, double dropout, bool isCausal,
                       std::optional<double> scale);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_OPERATORS_H

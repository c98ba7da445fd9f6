// How much work an operator does, by family.

#include "cost/Work.h"
#include "cost/Kernels.h"

namespace fsdp::cost {

double TensorShape::elements() const {
  double all = 1;
  for (int64_t size : *this)
    all *= size;
  return all;
}

namespace {

/// The tensors of a call, in the order of the schema.
struct Tensors {
  const std::vector<TensorShape> &operands, &results;

  /// A shape without dimensions where there is no such tensor.
  TensorShape operand(size_t i) const {
    return i < operands.size() ? operands[i] : TensorShape();
  }
  TensorShape result(size_t i) const {
    return i < results.size() ? results[i] : TensorShape();
  }
};

/// The result's elements, each a sum over the last dimension of operand
/// `Left`.
template <unsigned Left> double matmul(const Tensors &tensors) {
  TensorShape left = tensors.operand(Left);
  return left.rank == 0
             ? 0
             : 2 * tensors.result(0).elements() * left.sizes[left.rank - 1];
}

/// Rows in groups, each times a matrix of its group; or, for the gradient of
/// the matrices, one product of each group, whose sums have its rows alone.
double groupedProducts(const Tensors &tensors) {
  TensorShape result = tensors.result(0);
  double groups = result.rank == 3 ? result.sizes[0] : 1;
  return groups == 0 ? 0 : matmul<0>(tensors) / groups;
}

/// Each element of the output is a sum over the weight's input channels and
/// taps.
double convolution(TensorShape output, TensorShape weight) {
  if (weight.rank == 0)
    return 0;
  TensorShape taps = {weight.dtype, weight.sizes + 1, weight.rank - 1};
  return 2 * output.elements() * taps.elements();
}

double convolutionForward(const Tensors &tensors) {
  return convolution(tensors.result(0), tensors.operand(1));
}

/// The gradients of input and weight cost a forward each, where produced.
double convolutionBackward(const Tensors &tensors) {
  double both = 0;
  for (const TensorShape &result : tensors.results)
    if (result.rank > 1)
      both += convolution(tensors.operand(0), tensors.operand(2));
  return both;
}

/// Two products of query x key length: scores and outputs.
double attention(TensorShape query, TensorShape key) {
  if (query.rank < 2 || key.rank < 2)
    return 0;
  return 4 * query.elements() * key.sizes[key.rank - 2];
}

double attentionForward(const Tensors &tensors) {
  return attention(tensors.operand(0), tensors.operand(1));
}

/// Five products for forward's two. The gradient is the first operand.
double attentionBackward(const Tensors &tensors) {
  return 2.5 * attention(tensors.operand(1), tensors.operand(2));
}

struct KnownOperator {
  std::string_view callee;
  double (*flops)(const Tensors &);
};

constexpr KnownOperator knownOperators[] = {
    {"mm", matmul<0>},
    {"bmm", matmul<0>},
    {"matmul", matmul<0>},
    {"linear", matmul<0>},
    {"mv", matmul<0>},
    {"_grouped_mm", groupedProducts},
    {"addmm", matmul<1>},
    {"baddbmm", matmul<1>},
    {"convolution", convolutionForward},
    {"convolution_backward", convolutionBackward},
    {"_scaled_dot_product_flash_attention_for_cpu", attentionForward},
    {"_scaled_dot_product_flash_attention", attentionForward},
    {"_scaled_dot_product_efficient_attention", attentionForward},
    {"_scaled_dot_product_cudnn_attention", attentionForward},
    {"fsdp_mlir::flash_attention", attentionForward},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", attentionBackward},
    {"_scaled_dot_product_flash_attention_backward", attentionBackward},
    {"_scaled_dot_product_efficient_attention_backward", attentionBackward},
    {"_scaled_dot_product_cudnn_attention_backward", attentionBackward},
    {"fsdp_mlir::flash_attention_backward", attentionBackward},
};

} // namespace

Work workOf(std::string_view callee, const std::vector<TensorShape> &operands,
            const std::vector<TensorShape> &results) {
  Work work;
  for (const TensorShape &result : results)
    work.bytes += result.bytes();
  // Of a table of embeddings only the rows that are looked up are read.
  if (callee == "embedding")
    work.bytes *= 2;
  else
    for (const TensorShape &operand : operands)
      work.bytes += operand.bytes();

  if (!results.empty())
    work.dtype = results.front().dtype;
  // Whichever kernel computes a product, it is the same work.
  if (const Kernel *kernel = findKernel(callee))
    callee = kernel->family;
  for (const KnownOperator &known : knownOperators)
    if (known.callee == callee)
      work.flops = known.flops({operands, results});
  return work;
}

} // namespace fsdp::cost

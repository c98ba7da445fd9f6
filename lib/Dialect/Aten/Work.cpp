// How much work an operator does, by family.

#include "fsdp/Dialect/Aten/Work.h"

#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace fsdp::aten;

namespace {

/// The tensors of a call, in the order of the schema.
struct Tensors {
  SmallVector<RankedTensorType> operands, results;

  ArrayRef<int64_t> operand(size_t i) const {
    return i < operands.size() ? operands[i].getShape() : ArrayRef<int64_t>();
  }
  ArrayRef<int64_t> result(size_t i) const {
    return i < results.size() ? results[i].getShape() : ArrayRef<int64_t>();
  }
};

double product(ArrayRef<int64_t> shape) {
  double all = 1;
  for (int64_t size : shape)
    all *= size;
  return all;
}

double getBytes(RankedTensorType type) {
  Type element = type.getElementType();
  double factor = 1;
  if (auto complex = dyn_cast<ComplexType>(element)) {
    element = complex.getElementType();
    factor = 2;
  }
  unsigned bits = element.isIntOrFloat() ? element.getIntOrFloatBitWidth() : 8;
  return factor * product(type.getShape()) * std::max(bits / 8, 1u);
}

/// The result's elements, each a sum over the last dimension of operand
/// `Left`.
template <unsigned Left> double matmul(const Tensors &tensors) {
  ArrayRef<int64_t> left = tensors.operand(Left);
  return left.empty() ? 0 : 2 * product(tensors.result(0)) * left.back();
}

/// Each element of the output is a sum over the weight's input channels and
/// taps.
double convolution(ArrayRef<int64_t> output, ArrayRef<int64_t> weight) {
  return weight.empty() ? 0
                        : 2 * product(output) * product(weight.drop_front());
}

double convolutionForward(const Tensors &tensors) {
  return convolution(tensors.result(0), tensors.operand(1));
}

/// The gradients of input and weight cost a forward each, where produced.
double convolutionBackward(const Tensors &tensors) {
  ArrayRef<int64_t> weight = tensors.operand(2);
  double both = 0;
  for (RankedTensorType result : tensors.results)
    if (result.getRank() > 1)
      both += convolution(tensors.operand(0), weight);
  return both;
}

/// Two products of query x key length: scores and outputs.
double attention(ArrayRef<int64_t> query, ArrayRef<int64_t> key) {
  if (query.size() < 2 || key.size() < 2)
    return 0;
  return 4 * product(query) * key[key.size() - 2];
}

double attentionForward(const Tensors &tensors) {
  return attention(tensors.operand(0), tensors.operand(1));
}

/// Five products for forward's two. The gradient is the first operand.
double attentionBackward(const Tensors &tensors) {
  return 2.5 * attention(tensors.operand(1), tensors.operand(2));
}

struct Family {
  StringRef callee;
  double (*flops)(const Tensors &);
};

constexpr Family kFamilies[] = {
    {"mm", matmul<0>},
    {"bmm", matmul<0>},
    {"matmul", matmul<0>},
    {"linear", matmul<0>},
    {"mv", matmul<0>},
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

Work fsdp::aten::getWork(StringRef callee, TypeRange operands,
                         TypeRange results) {
  Tensors tensors;
  Work work;
  for (Type type : operands)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      tensors.operands.push_back(tensor);
  for (Type type : results)
    if (auto tensor = dyn_cast<RankedTensorType>(type))
      tensors.results.push_back(tensor);

  for (RankedTensorType result : tensors.results)
    work.bytes += getBytes(result);
  // Of a table of embeddings only the rows that are looked up are read.
  if (callee == "embedding")
    work.bytes *= 2;
  else
    for (RankedTensorType operand : tensors.operands)
      work.bytes += getBytes(operand);

  if (!tensors.results.empty())
    work.elementType = tensors.results.front().getElementType();
  for (const Family &family : kFamilies)
    if (family.callee == callee)
      work.flops = family.flops(tensors);
  return work;
}

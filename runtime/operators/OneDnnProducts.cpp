// Matrix products by the oneDNN that PyTorch's CPU half contains.

#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/empty.h>

// What at::mm calls for types of 16 bits. PyTorch's library exports it, but its
// wheel has no header of it.
namespace at::native {
/// result = beta * result + alpha * mat1 mat2.
void mkldnn_matmul(const Tensor &mat1, const Tensor &mat2, const Tensor &result,
                   float beta, float alpha);
} // namespace at::native

namespace fsdp {

/// float32 alone: of other types ATen's own products are oneDNN's.
static void checkFloat(const at::Tensor &tensor) {
  TORCH_CHECK(tensor.scalar_type() == at::kFloat,
              "oneDNN's products are for float32 here, not ",
              tensor.scalar_type());
}

at::Tensor mmOneDnn(const at::Tensor &self, const at::Tensor &mat2) {
  checkFloat(self);
  at::Tensor result = at::empty({self.size(0), mat2.size(1)}, self.options());
  at::native::mkldnn_matmul(self, mat2, result, /*beta=*/0, /*alpha=*/1);
  return result;
}

at::Tensor bmmOneDnn(const at::Tensor &self, const at::Tensor &mat2) {
  checkFloat(self);
  at::Tensor result =
      at::empty({self.size(0), self.size(1), mat2.size(2)}, self.options());
  at::native::mkldnn_matmul(self, mat2, result, /*beta=*/0, /*alpha=*/1);
  return result;
}

at::Tensor addmmOneDnn(const at::Tensor &bias, const at::Tensor &mat1,
                       const at::Tensor &mat2) {
  checkFloat(mat1);
  at::Tensor result = at::empty({mat1.size(0), mat2.size(1)}, mat1.options());
  result.copy_(bias.expand_as(result));
  at::native::mkldnn_matmul(mat1, mat2, result, /*beta=*/1, /*alpha=*/1);
  return result;
}

/// PyTorch's own operator for graphs that its compiler has made.
static at::Tensor linear(const at::Tensor &input, const at::Tensor &weight,
                         const std::optional<at::Tensor> &bias) {
  using Function = at::Tensor(
      const at::Tensor &, const at::Tensor &, const std::optional<at::Tensor> &,
      std::string_view, c10::List<std::optional<at::Scalar>>,
      std::optional<std::string_view>);
  static const auto pointwise =
      c10::Dispatcher::singleton()
          .findSchemaOrThrow("mkldnn::_linear_pointwise", "")
          .typed<Function>();
  checkFloat(input);
  c10::List<std::optional<at::Scalar>> scalars;
  return pointwise.call(input, weight, bias, "none", scalars, "");
}

at::Tensor mmOneDnnLinear(const at::Tensor &self, const at::Tensor &mat2) {
  return linear(self, mat2.t(), std::nullopt);
}

at::Tensor addmmOneDnnLinear(const at::Tensor &bias, const at::Tensor &mat1,
                             const at::Tensor &mat2) {
  // It reads a bias as if its numbers lay side by side, whatever its stride.
  return linear(mat1, mat2.t(), bias.contiguous());
}

} // namespace fsdp

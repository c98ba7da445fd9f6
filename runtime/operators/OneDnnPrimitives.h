// Matrix products by primitives of oneDNN that are made once and kept. PyTorch
// looks its own up at every call, which takes longer than a small product.
#ifndef FSDP_RUNTIME_OPERATORS_ONEDNNPRIMITIVES_H
#define FSDP_RUNTIME_OPERATORS_ONEDNNPRIMITIVES_H

#include "operators/OneDnnLibrary.h"

#include <ATen/core/Tensor.h>
#include <array>
#include <memory>
#include <vector>

namespace fsdp {

/// What oneDNN gives as a pointer, and takes back by one function.
template <auto OneDnnFunctions::*destroy> struct Destroy {
  template <typename Handle> void operator()(Handle *handle) const {
    (oneDnn().*destroy)(handle);
  }
};
template <typename Handle, auto OneDnnFunctions::*destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<destroy>>;

/// How a matrix, or a batch of them, lies in memory: in elements.
struct TensorLayout {
  at::ScalarType type;
  at::DimVector sizes, strides;

  static TensorLayout of(const at::Tensor &tensor) {
    return {tensor.scalar_type(), at::DimVector(tensor.sizes()),
            at::DimVector(tensor.strides())};
  }
  /// With the last two dimensions exchanged.
  TensorLayout transposed() const;
};

/// A product of matrices that lie in memory in one way.
class PrimitiveProduct {
public:
  /// The one of this thread for these layouts, made when it is first asked for.
  /// Operands of 16 bits may have a result of float32. `bias`: [n], or null.
  /// Throws c10::Error for what oneDNN does not multiply on this processor, and
  /// where there is no oneDNN.
  static PrimitiveProduct &get(const TensorLayout &left,
                               const TensorLayout &right,
                               const TensorLayout &result,
                               const TensorLayout *bias = nullptr);

  PrimitiveProduct(const TensorLayout &left, const TensorLayout &right,
                   const TensorLayout &result, const TensorLayout *bias);

  /// Addresses of the first elements.
  void run(const void *left, const void *right, void *result,
           const void *bias = nullptr);

private:
  void add(int argument, const_dnnl_memory_desc_t layout);

  Owned<dnnl_primitive_t, &OneDnnFunctions::destroyPrimitive> primitive;
  std::vector<Owned<dnnl_memory_t, &OneDnnFunctions::destroyMemory>> memories;
  std::vector<dnnl_exec_arg_t> arguments;
  int64_t scratchBytes = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_ONEDNNPRIMITIVES_H

#include "executor/ProgramTensors.h"

#include "Error.h"
#include "device/TensorAt.h"

#include <ATen/core/Tensor.h>
#include <sstream>

namespace fsdp {

std::string typeOf(const at::Tensor &tensor) {
  std::ostringstream text;
  text << c10::toString(tensor.scalar_type()) << tensor.sizes()
       << " with strides " << tensor.strides();
  return text.str();
}

/// Bytes from a tensor's first element to the end of its last.
static uint64_t extent(const at::Tensor &tensor) {
  if (tensor.numel() == 0)
    return 0;
  uint64_t last = 0;
  for (int64_t d = 0; d < tensor.dim(); ++d)
    last += static_cast<uint64_t>(tensor.size(d) - 1) * tensor.stride(d);
  return (last + 1) * tensor.element_size();
}

bool hasStrides(const at::Tensor &tensor, c10::IntArrayRef strides) {
  if (static_cast<size_t>(tensor.dim()) != strides.size())
    return false;
  for (int64_t d = 0; d < tensor.dim() && tensor.numel() != 0; ++d)
    if (tensor.size(d) != 1 && tensor.stride(d) != strides[d])
      return false;
  return true;
}

static at::Tensor placedTensor(char *address, c10::Device device,
                               const plan::ValueT &value, uint64_t bytes) {
  for (int64_t stride : value.strides)
    if (stride < 0)
      throw Error(E::PlanAddress,
                  "value " + value.name +
                      " has a negative stride; lower the step again");
  if (value.shape.size() != value.strides.size())
    throw Error(E::PlanAddress,
                "value " + value.name +
                    " has not a stride per dimension; lower the step again");
  at::Tensor tensor = tensorAt(address, value.shape, value.strides,
                               toScalarType(value.dtype), device);
  if (extent(tensor) > bytes)
    throw Error(E::PlanAddress,
                "value " + value.name + " does not fit in its place of " +
                    std::to_string(bytes) + " bytes; lower the step again");
  return tensor;
}

std::vector<at::Tensor> placedTensors(const plan::PlanT &plan,
                                      const plan::ProgramT &program,
                                      const Arenas &arenas) {
  std::vector<at::Tensor> tensors(program.values.size());
  for (size_t v = 0; v < tensors.size(); ++v) {
    const plan::ValueT &value = *program.values[v];
    if (value.view_of >= 0)
      continue;
    const plan::Place &place =
        value.state >= 0 ? *plan.states.at(value.state)->place : *value.place;
    char *address = arenas.address(place, "value " + value.name);
    tensors[v] =
        placedTensor(address, arenas.deviceOf(place), value, place.bytes());
  }
  return tensors;
}

void defineView(const plan::ProgramT &program, const Arenas &arenas, int v,
                const at::Tensor &view, const std::string &what,
                std::vector<at::Tensor> &tensors) {
  const plan::ValueT &value = *program.values.at(v);
  if (!view.defined())
    throw Error(E::PlanOperator,
                what + ": gave no tensor for value " + value.name);
  if (view.scalar_type() != toScalarType(value.dtype) ||
      view.sizes() != value.shape || !hasStrides(view, value.strides)) {
    std::ostringstream expected;
    expected << plan::dtypeName(value.dtype) << c10::IntArrayRef(value.shape)
             << " with strides " << c10::IntArrayRef(value.strides);
    throw Error(E::PlanOperator,
                what + ": gave " + typeOf(view) + " for value " + value.name +
                    ", the plan says " + expected.str() + "; export again");
  }
  char *begin = arenas.address(*value.place, "value " + value.name);
  auto *data = static_cast<const char *>(view.const_data_ptr());
  // Empty tensors have no address to compare.
  if (view.numel() != 0 &&
      (data < begin || data + extent(view) > begin + value.place->bytes()))
    throw Error(E::PlanOperator,
                what + ": value " + value.name +
                    " is not a view of the value the plan says it looks into; "
                    "lower the step again");
  tensors.at(v) = view;
}

} // namespace fsdp

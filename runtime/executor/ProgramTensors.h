#ifndef FSDP_RUNTIME_EXECUTOR_PROGRAMTENSORS_H
#define FSDP_RUNTIME_EXECUTOR_PROGRAMTENSORS_H

#include "executor/Arenas.h"
#include "executor/AtenOp.h"

#include <vector>

namespace fsdp {

/// A tensor per value of the program, at its planned address; undefined for
/// views, which defineView fills in.
std::vector<at::Tensor> placedTensors(const plan::PlanT &plan,
                                      const plan::ProgramT &program,
                                      const Arenas &arenas);

/// Makes `view`, what a view operator or an in-place one gave for value `v`,
/// that value's tensor. Throws Error when it has not the declared type or does
/// not lie in the place that the plan gives it.
void defineView(const plan::ProgramT &program, const Arenas &arenas, int v,
                const at::Tensor &view, const std::string &what,
                std::vector<at::Tensor> &tensors);

/// Whether `strides` are the tensor's where they say anything: nothing steps
/// along a dimension of size 1, nor in a tensor without elements.
bool hasStrides(const at::Tensor &tensor, c10::IntArrayRef strides);

/// "float32[3, 4] with strides [4, 1]", for messages.
std::string typeOf(const at::Tensor &tensor);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_PROGRAMTENSORS_H

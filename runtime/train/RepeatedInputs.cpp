#include "train/RepeatedInputs.h"

namespace fsdp {

RepeatedInputs::RepeatedInputs(const plan::PlanT &plan) {
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const plan::ProgramT &program = *plan.programs[p];
    for (size_t i = 0; i < program.inputs.size(); ++i) {
      if (program.inputs[i]->from_data)
        continue;
      const plan::ValueT &value = *program.values[program.inputs[i]->value];
      NamedTensor tensor{"fsdp.input." + program.inputs[i]->name,
                         {},
                         value.dtype,
                         value.shape};
      uint64_t bytes = *plan::numElements(value.shape) * tensor.elementBytes();
      inputs.push_back({static_cast<int>(p), i, std::move(tensor),
                        std::vector<char>(bytes)});
    }
  }
}

std::vector<WholeTensor> RepeatedInputs::tensors() {
  std::vector<WholeTensor> tensors;
  for (Input &input : inputs)
    tensors.push_back({input.tensor, input.data.data()});
  return tensors;
}

void RepeatedInputs::set(int program, Executor &executor) const {
  for (const Input &input : inputs)
    if (input.program == program)
      executor.setInput(program, input.index, input.data.data());
}

} // namespace fsdp

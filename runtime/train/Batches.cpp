#include "train/Batches.h"

#include "Error.h"

namespace fsdp {

bool readsData(const plan::ProgramT &program) {
  for (const auto &input : program.inputs)
    if (input->from_data)
      return true;
  return false;
}

DataInputs::DataInputs(const plan::ProgramT &program) {
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const plan::InputT &input = *program.inputs[i];
    if (!input.from_data)
      continue;
    const plan::ValueT &value = *program.values.at(input.value);
    numbers.push_back(i);
    columns.push_back({input.name, value.dtype, value.shape});
    if (value.shape.empty())
      throw Error(
          E::DataMismatch,
          "input " + input.name +
              " is a scalar and cannot come from data; export it as one "
              "that repeats");
  }
}

int64_t DataInputs::batch() const {
  int64_t batch = columns[0].shape[0];
  for (const Column &column : columns)
    if (column.shape[0] != batch)
      throw Error(E::DataMismatch,
                  "inputs " + columns[0].name + " and " + column.name +
                      " have batches of " + std::to_string(batch) + " and " +
                      std::to_string(column.shape[0]) +
                      " samples; give the step inputs of one batch size");
  return batch;
}

} // namespace fsdp

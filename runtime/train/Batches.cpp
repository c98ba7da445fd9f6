#include "train/Batches.h"

#include "Error.h"

namespace fsdp {

bool readsData(const plan::ProgramT &program) {
  for (const auto &input : program.inputs)
    if (input->from_data)
      return true;
  return false;
}

static std::vector<DataSet::Column> columnsOf(const plan::ProgramT &program) {
  std::vector<DataSet::Column> columns;
  for (const auto &input : program.inputs)
    if (input->from_data) {
      const plan::ValueT &value = *program.values.at(input->value);
      columns.push_back({input->name, value.dtype, value.shape});
    }
  return columns;
}

Batches::Batches(const plan::ProgramT &program, const std::string &path,
                 int ranks, int rank, bool shuffle, int64_t seed)
    : data(path, columnsOf(program)) {
  std::vector<DataSet::Column> columns = columnsOf(program);
  int64_t batch = columns[0].shape[0];
  for (const DataSet::Column &column : columns)
    if (column.shape[0] != batch)
      throw Error("inputs " + columns[0].name + " and " + column.name +
                  " have batches of " + std::to_string(batch) + " and " +
                  std::to_string(column.shape[0]) +
                  " samples; give the step inputs of one batch size");
  for (size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i]->from_data)
      inputs.push_back(i);
  sampler = {data.samples(), ranks, rank, batch, shuffle, seed};
  if (batch == 0 || sampler.batches() == 0)
    throw Error("data in " + path + " has " + std::to_string(data.samples()) +
                " samples, fewer than one batch of all ranks: " +
                std::to_string(ranks) + " x " + std::to_string(batch) + " = " +
                std::to_string(ranks * batch) +
                "; use more data, fewer ranks or a smaller batch");
}

void Batches::set(int64_t epoch, int64_t batch, int program,
                  Executor &executor) {
  if (currentEpoch != epoch) {
    order = sampler.epoch(epoch);
    currentEpoch = epoch;
  }
  for (size_t c = 0; c < inputs.size(); ++c) {
    staging.resize(data.sampleBytes(c) * sampler.batch);
    data.read(c, order.data() + batch * sampler.batch, sampler.batch,
              staging.data());
    executor.setInput(program, inputs[c], staging.data());
  }
}

} // namespace fsdp

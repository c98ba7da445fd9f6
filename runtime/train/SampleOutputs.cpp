#include "train/SampleOutputs.h"

#include "Error.h"
#include "plan/ProgramOutputs.h"
#include "train/FirstProblem.h"

#include <cstring>

namespace fsdp {

SampleOutputs::SampleOutputs(const plan::PlanT &plan, std::string path,
                             Communicator &communicator)
    : plan(plan), path(std::move(path)), communicator(communicator),
      program(plan::findProgram(plan, plan::evalProgramName)) {
  if (program >= 0)
    outputs = plan::outputsOf(*plan.programs[program], /*numbers=*/false);
  if (outputs.empty())
    throw Error(E::FlagAndPlan,
                "the plan's evaluation gives nothing for each sample; export "
                "the step with outputs and eval_data, or drop --eval-outputs");
  if (plan::findVariants(plan, plan::evalProgramName).size() > 1)
    throw Error(E::FlagAndPlan,
                "the plan's evaluation takes batches of several shapes, and a "
                "file has rows of one; export with one shape, or drop "
                "--eval-outputs");
}

void SampleOutputs::begin(int64_t batches) {
  batch = 0;
  std::string problem;
  if (communicator.rank() == 0) {
    std::vector<SafeTensorsWriter::Tensor> tensors;
    for (const plan::OutputT *output : outputs) {
      const plan::ValueT &value =
          *plan.programs[program]->values[output->value];
      std::vector<int64_t> shape = value.shape;
      shape[0] *= batches * communicator.size();
      tensors.push_back({output->name, value.dtype, shape});
    }
    try {
      file = std::make_unique<SafeTensorsWriter>(path, std::move(tensors));
    } catch (const Error &error) {
      problem = error.what();
    }
  }
  problem = firstProblem(communicator, problem);
  if (!problem.empty())
    throw Error(E::FileUnwritable, problem);
}

/// Rows of all ranks, which lie one rank after the other, in the order of
/// their samples.
static std::vector<char> interleaved(const std::vector<char> &rows,
                                     int64_t ranks, int64_t samples) {
  std::vector<char> result(rows.size());
  uint64_t row = samples ? rows.size() / (ranks * samples) : 0;
  for (int64_t rank = 0; rank < ranks; ++rank)
    for (int64_t sample = 0; sample < samples; ++sample)
      std::memcpy(result.data() + (sample * ranks + rank) * row,
                  rows.data() + (rank * samples + sample) * row, row);
  return result;
}

void SampleOutputs::add(Executor &executor) {
  std::vector<at::Tensor> mine = executor.tensorOutputs(program);
  for (size_t i = 0; i < mine.size(); ++i) {
    uint64_t bytes = mine[i].nbytes();
    std::vector<char> rows(bytes * communicator.size());
    if (bytes)
      communicator.allGather(mine[i].const_data_ptr(), rows.data(), bytes,
                             plan::DType::UInt8);
    if (communicator.rank() != 0)
      continue;
    rows = interleaved(rows, communicator.size(), mine[i].size(0));
    file->write(outputs[i]->name, batch * rows.size(), rows.data(),
                rows.size());
  }
  ++batch;
}

void SampleOutputs::finish() {
  if (file)
    file->finish();
  file.reset();
}

} // namespace fsdp

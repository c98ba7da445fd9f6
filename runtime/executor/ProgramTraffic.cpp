#include "executor/ProgramTraffic.h"

#include <ATen/ATen.h>
#include <cstring>

namespace fsdp {

// Room for the largest number.
static constexpr uint64_t scalarBytes = 16;

char *ProgramTraffic::prepare(Staging &staging, uint64_t bytes) {
  finish(staging);
  if (bytes > staging.bytes) {
    staging.memory = backend.allocateHost(bytes, /*guard=*/0, /*pinned=*/true);
    staging.bytes = bytes;
  }
  staging.pieces.clear();
  return staging.memory->arena();
}

void ProgramTraffic::launch(Staging &staging) {
  streams.copy(plan::computeStream, staging.pieces);
  staging.mark = streams.mark();
  staging.underWay = true;
}

void ProgramTraffic::finish(Staging &staging) {
  if (staging.underWay)
    streams.await(staging.mark);
  staging.underWay = false;
}

void ProgramTraffic::setInput(LoadedProgram &program, size_t input,
                              const void *rowMajor) {
  const at::Tensor &planned =
      program.tensors[program.plan->inputs.at(input)->value];
  uint64_t bytes = at::detail::computeStorageNbytes(
      planned.sizes(), planned.strides(), planned.element_size());
  if (bytes == 0)
    return;
  char *to = static_cast<char *>(planned.data_ptr()), *host = to;
  Staging *staging = nullptr;
  if (!backend.isHost()) {
    staging = &inputs[{&program, input}];
    host = prepare(*staging, bytes);
  }
  if (planned.is_contiguous()) {
    std::memcpy(host, rowMajor, bytes);
  } else {
    at::TensorOptions options(planned.scalar_type());
    at::from_blob(host, planned.sizes(), planned.strides(), options)
        .copy_(at::from_blob(const_cast<void *>(rowMajor), planned.sizes(),
                             options));
  }
  if (!staging)
    return;
  staging->pieces.push_back({to, host, bytes, 1, bytes, bytes});
  launch(*staging);
}

void ProgramTraffic::fetchOutputs(const LoadedProgram &program) {
  Outputs &run = runs[numRuns++ % runs.size()];
  const auto &named = program.plan->outputs;
  char *to =
      prepare(run.staging, std::max<size_t>(named.size(), 1) * scalarBytes);
  run.types.clear();
  for (const auto &output : named) {
    const at::Tensor &tensor = program.tensors[output->value];
    run.types.push_back(tensor.scalar_type());
    run.staging.pieces.push_back(
        {to, static_cast<const char *>(tensor.const_data_ptr()),
         tensor.nbytes(), 1, scalarBytes, scalarBytes});
    to += scalarBytes;
  }
  launch(run.staging);
}

std::vector<double> ProgramTraffic::outputs(unsigned runsAgo) {
  Outputs &run = runs[(numRuns - 1 - runsAgo) % runs.size()];
  finish(run.staging);
  std::vector<double> values;
  char *from = run.staging.memory->arena();
  for (at::ScalarType type : run.types) {
    values.push_back(
        at::from_blob(from, {}, at::TensorOptions(type)).item().toDouble());
    from += scalarBytes;
  }
  return values;
}

} // namespace fsdp

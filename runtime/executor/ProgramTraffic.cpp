#include "executor/ProgramTraffic.h"

#include "device/TensorAt.h"
#include "plan/AlignUp.h"
#include "plan/ProgramOutputs.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/from_blob.h>
#include <algorithm>
#include <cstring>

namespace fsdp {

// Room for the largest number.
static constexpr uint64_t scalarBytes = 16;

/// Bytes from a tensor's first element to behind its last one.
static uint64_t spanOf(const at::Tensor &tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(),
                                          tensor.element_size());
}

void ProgramTraffic::setInput(LoadedProgram &program, size_t input,
                              const void *rowMajor) {
  const at::Tensor &planned =
      program.tensors[program.plan->inputs.at(input)->value];
  uint64_t bytes = spanOf(planned);
  if (bytes == 0)
    return;
  char *to = static_cast<char *>(planned.data_ptr()), *host = to;
  Staging *staging = nullptr;
  if (!backend.isHost()) {
    staging = &inputs[{&program, input}];
    host = staging->prepare(backend, streams, bytes);
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
  staging->launch(streams);
}

void ProgramTraffic::setInputFromDevice(LoadedProgram &program, size_t input,
                                        const void *rowMajor) {
  at::Tensor &planned = program.tensors[program.plan->inputs.at(input)->value];
  if (planned.numel() == 0)
    return;
  planned.copy_(tensorAt(rowMajor, planned.sizes(), planned.scalar_type(),
                         planned.device()));
}

char *ProgramTraffic::inputMemory(const LoadedProgram &program,
                                  size_t input) const {
  const at::Tensor &planned =
      program.tensors[program.plan->inputs.at(input)->value];
  return backend.isHost() && planned.is_contiguous()
             ? static_cast<char *>(planned.data_ptr())
             : nullptr;
}

void ProgramTraffic::fetchOutputs(const LoadedProgram &program) {
  Outputs &run = runs[numRuns++ % runs.size()];
  const auto &named = program.plan->outputs;
  char *to = run.staging.prepare(
      backend, streams, std::max<size_t>(named.size(), 1) * scalarBytes);
  run.types.clear();
  for (const auto &output : named) {
    if (!plan::isNumber(*program.plan, *output))
      continue;
    const at::Tensor &tensor = program.tensors[output->value];
    run.types.push_back(tensor.scalar_type());
    run.staging.pieces.push_back(
        {to, static_cast<const char *>(tensor.const_data_ptr()),
         tensor.nbytes(), 1, scalarBytes, scalarBytes});
    to += scalarBytes;
  }
  run.staging.launch(streams);
}

std::vector<double> ProgramTraffic::outputs(unsigned runsAgo) {
  Outputs &run = runs[(numRuns - 1 - runsAgo) % runs.size()];
  run.staging.finish(streams);
  std::vector<double> values;
  char *from = run.staging.data();
  for (at::ScalarType type : run.types) {
    values.push_back(numberAt(from, type, c10::kCPU).item().toDouble());
    from += scalarBytes;
  }
  return values;
}

std::vector<at::Tensor>
ProgramTraffic::tensorOutputs(const LoadedProgram &program) {
  uint64_t bytes = 0;
  std::vector<uint64_t> offsets;
  std::vector<const at::Tensor *> planned;
  for (const plan::OutputT *output :
       plan::outputsOf(*program.plan, /*numbers=*/false)) {
    planned.push_back(&program.tensors[output->value]);
    offsets.push_back(bytes);
    bytes += alignUp(spanOf(*planned.back()));
  }
  char *host =
      tensors.prepare(backend, streams, std::max(bytes, plan::placeAlignment));
  for (size_t i = 0; i < planned.size(); ++i)
    if (uint64_t span = spanOf(*planned[i]))
      tensors.pieces.push_back(
          {host + offsets[i],
           static_cast<const char *>(planned[i]->const_data_ptr()), span, 1,
           span, span});
  tensors.launch(streams);
  tensors.finish(streams);
  std::vector<at::Tensor> copies;
  for (size_t i = 0; i < planned.size(); ++i)
    copies.push_back(at::from_blob(host + offsets[i], planned[i]->sizes(),
                                   planned[i]->strides(),
                                   at::TensorOptions(planned[i]->scalar_type()))
                         .clone(at::MemoryFormat::Contiguous));
  return copies;
}

} // namespace fsdp

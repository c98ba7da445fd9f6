#include "executor/Updates.h"

#include <optional>

namespace fsdp {

void Updates::beginRun() {
  whole = 0;
  byUnit.assign(units + 1, 0);
}

static void endRun(OperatorMemory &memory, std::vector<at::Tensor> &results) {
  uint64_t taken = memory.endRun(results);
  TORCH_INTERNAL_ASSERT(taken == 0, "no output is expected of an update");
}

void Updates::run(LoadedProgram &program, size_t index, Streams &streams) {
  LoadedProgram::Update &update = program.updates[index];
  if (update.together > 1)
    return runTogether(&update, streams);
  std::optional<UseScratch> use;
  if (update.onHost)
    use.emplace(update.processor->scratch);
  bool isRead = (gradientNorm && update.inNorm) ||
                (update.skip.defined() && !update.rule->readsSkip());
  // The host waits for what it reads next. Where a rank is gone this throws:
  // to read a number would wait for ever.
  if (update.onHost || (ownMemory && isRead))
    streams.await(streams.mark());
  addNorm(update);
  at::Tensor skip = update.skip;
  if (skip.defined() && !update.rule->readsSkip()) {
    if (skip.item<double>() != 0)
      return;
    skip = at::Tensor();
  }
  std::vector<at::Tensor> none;
  try {
    OperatorMemory::Attention attention(update.memory);
    // A number may still be the device's.
    bool fetches = update.onHost && update.scale.defined();
    update.rule->apply(update.operands,
                       fetches ? update.scale.cpu() : update.scale, skip,
                       update.leftover);
  } catch (...) {
    update.memory.abandonRun(none);
    throw;
  }
  endRun(update.memory, none);
}

void Updates::runTogether(LoadedProgram::Update *first, Streams &streams) {
  if (gradientNorm)
    streams.await(streams.mark());
  std::vector<const std::vector<at::Tensor> *> all;
  for (size_t i = 0; i < first->together; ++i) {
    addNorm(first[i]);
    all.push_back(&first[i].operands);
  }
  std::vector<at::Tensor> none;
  try {
    OperatorMemory::Attention attention(first->memory);
    first->rule->applyTogether(all, first->skip);
  } catch (...) {
    first->memory.abandonRun(none);
    throw;
  }
  endRun(first->memory, none);
}

/// Adds the square of the gradient's norm, where it is asked for.
void Updates::addNorm(LoadedProgram::Update &update) {
  if (!gradientNorm || !update.inNorm)
    return;
  std::vector<at::Tensor> norm;
  {
    OperatorMemory::Attention attention(update.normMemory);
    norm.push_back(update.operands[1].to(at::kDouble).norm());
  }
  double value = norm[0].item<double>();
  endRun(update.normMemory, norm);
  whole += value * value;
  byUnit[update.unit] += value * value;
}

} // namespace fsdp

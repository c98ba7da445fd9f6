#include "executor/Updates.h"

#include <optional>

namespace fsdp {

void Updates::beginRun() {
  whole = 0;
  byUnit.assign(units + 1, 0);
}

void Updates::run(LoadedProgram::Update &update, Streams &streams) {
  std::optional<UseScratch> use;
  if (update.onHost)
    use.emplace(update.processor->scratch);
  bool isRead = (gradientNorm && update.inNorm) ||
                (update.skip.defined() && !update.rule->readsSkip());
  // The host waits for what it reads next. Where a rank is gone this throws:
  // to read a number would wait for ever.
  if (update.onHost || (ownMemory && isRead))
    streams.await(streams.mark());
  if (gradientNorm && update.inNorm) {
    double squared = squaredNormOf(update);
    whole += squared;
    byUnit[update.unit] += squared;
  }
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
                       fetches ? update.scale.cpu() : update.scale, skip);
  } catch (...) {
    update.memory.abandonRun(none);
    throw;
  }
  update.memory.endRun(none);
}

double Updates::squaredNormOf(LoadedProgram::Update &update) {
  std::vector<at::Tensor> norm;
  {
    OperatorMemory::Attention attention(update.normMemory);
    norm.push_back(update.operands[1].to(at::kDouble).norm());
  }
  double value = norm[0].item<double>();
  update.normMemory.endRun(norm);
  return value * value;
}

} // namespace fsdp

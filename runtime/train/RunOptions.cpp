#include "train/RunOptions.h"

namespace fsdp {

std::string agreementOf(const RunOptions &options) {
  auto optional = [](auto value) {
    return value ? std::to_string(*value) : std::string("default");
  };
  const CheckpointOptions &checkpoints = options.checkpoints;
  bool evaluates =
      !options.evalData.empty() || !options.evalDataCommand.empty();
  return "steps=" + optional(options.steps) +
         " epochs=" + optional(options.epochs) +
         " seed=" + optional(options.seed) +
         " shuffle=" + std::to_string(options.shuffle) +
         " log-interval=" + std::to_string(options.logInterval.value_or(1)) +
         " non-finite=" + std::to_string(int(options.nonFinite)) +
         " log-grad-norm=" + std::to_string(options.logGradientNorm) +
         " log-units=" + std::to_string(options.logUnits) +
         " eval-interval=" + std::to_string(options.evalInterval) +
         " eval=" + std::to_string(evaluates) +
         " eval-outputs=" + std::to_string(!options.evalOutputs.empty()) +
         " weights-from-rank0=" + std::to_string(options.weightsFromRank0) +
         " rng=" + (options.sequentialRandom ? "sequential" : "site") +
         " cuda-graph=" + std::to_string(options.graph) +
         " checkpoint-dir=" + checkpoints.folder +
         " checkpoint-interval=" + std::to_string(checkpoints.interval) +
         " checkpoint-sync=" + std::to_string(checkpoints.synchronous) +
         " checkpoint-must-succeed=" + std::to_string(checkpoints.mustSucceed) +
         " resume=" + checkpoints.resume;
}

} // namespace fsdp

#ifndef FSDP_RUNTIME_EXECUTOR_PROCESSOR_H
#define FSDP_RUNTIME_EXECUTOR_PROCESSOR_H

#include "executor/Scratch.h"
#include "executor/SiteRandom.h"
#include "executor/UpdateRule.h"

#include <vector>

namespace fsdp {

/// What runs kernels, with what they need beside their operands. Where a
/// program runs on a GPU, states that are offloaded are updated by another: the
/// host.
struct Processor {
  /// Its scratch comes from `allocate`. With `numbers` scalars of rules are in
  /// the device's memory.
  Processor(const plan::PlanT &plan, const Kernels &kernels, SiteRandom random,
            std::function<DeviceMemory(uint64_t)> allocate,
            StepNumbers *numbers)
      : random(std::move(random)),
        scratch(kernels.device(), std::move(allocate)) {
    for (const auto &rule : plan.rules)
      rules.emplace_back(*rule, this->random,
                         numbers ? &numbers->newList(rule->scalars) : nullptr);
  }
  Processor(const Processor &) = delete;

  /// Begins a step, or one of its micro-batches. An evaluation is none: the
  /// rates that it meets may be those of the next step already, from which the
  /// numbers of the one that was done must not be made again.
  void beginStep(const StepContext &context, uint64_t microBatch,
                 bool updates) {
    if (updates)
      for (UpdateRule &rule : rules)
        rule.beginStep(context);
    random.beginStep(context.step, microBatch);
  }

  SiteRandom random;
  Scratch scratch;
  std::vector<UpdateRule> rules; // of the plan
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_PROCESSOR_H

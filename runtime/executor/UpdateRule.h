#ifndef FSDP_RUNTIME_EXECUTOR_UPDATERULE_H
#define FSDP_RUNTIME_EXECUTOR_UPDATERULE_H

#include "executor/AtenOp.h"

#include <vector>

namespace fsdp {

/// A rule of the plan, ready to run on any parameter.
class UpdateRule {
public:
  UpdateRule(const plan::RuleT &rule, SiteRandom &random);

  /// Evaluates the rule's scalars for a step.
  void beginStep(uint64_t step, const std::vector<double> &learningRates);

  /// Replaces `operands[0]` (the parameter) and `operands[2...]` (its states)
  /// by the rule's results; `operands[1]` is the gradient. All have one shape.
  void apply(const std::vector<at::Tensor> &operands);

private:
  void applyToChunk(const std::vector<at::Tensor> &operands);
  void applyFused(const std::vector<at::Tensor> &operands);

  const plan::RuleT &rule;
  bool fused; // its last call writes into its operands
  std::vector<AtenOp> calls;
  std::vector<double> scalars;
  std::vector<at::Tensor> values, scratch, tail;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_UPDATERULE_H

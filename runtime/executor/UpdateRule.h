#ifndef FSDP_RUNTIME_EXECUTOR_UPDATERULE_H
#define FSDP_RUNTIME_EXECUTOR_UPDATERULE_H

#include "executor/AtenOp.h"
#include "executor/LeftoverElements.h"
#include "executor/Scalars.h"

#include <map>
#include <vector>

namespace fsdp {

/// A rule of the plan, ready to run on any parameter.
class UpdateRule {
public:
  /// Runs where `random` draws its numbers.
  /// `numbers`: see AtenOp.
  UpdateRule(const plan::RuleT &rule, SiteRandom &random,
             StepNumbers::List *numbers = nullptr);

  /// Evaluates the rule's scalars for a step.
  void beginStep(const StepContext &context);

  /// Replaces `operands[0]` (the parameter) and `operands[2...]` (its states)
  /// by the rule's results; `operands[1]` is the gradient, and those that no
  /// result is for are read alone. All have one shape.
  /// Where `scale`, a scalar, is defined the rule sees the gradient times it.
  /// Where `skip`, a float32 scalar, is 1 nothing happens; for a rule that
  /// readsSkip() only.
  /// `leftover`: elements that PyTorch computes one by one, in memory's order,
  /// for a rule that readsLeftover(). It computes all others in vectors.
  void apply(const std::vector<at::Tensor> &operands,
             const at::Tensor &scale = {}, const at::Tensor &skip = {},
             const std::vector<ElementRange> &leftover = {});

  /// Whether its kernels may round elements that fill no vector otherwise.
  bool readsLeftover() const { return !fused && atATime > 1; }
  /// How many elements its kernels are given at a time, or a multiple of it.
  int64_t elementsAtATime() const { return atATime; }

  /// Whether applyTogether() takes these operands of apply().
  bool canGroup(const std::vector<at::Tensor> &operands) const;
  /// apply() for several parameters by one launch of the rule's kernel, with
  /// the bits of so many. Where `skip` is defined: as there.
  void applyTogether(const std::vector<const std::vector<at::Tensor> *> &all,
                     const at::Tensor &skip = {});

  /// Its kernel, on a device with memory of its own, looks at `skip` itself;
  /// for others the host must.
  bool readsSkip() const { return skips; }

private:
  /// Its results take their places among `operands`.
  void runCall(AtenOp &call, std::vector<at::Tensor> &operands);
  void applyToChunk(std::vector<at::Tensor> operands, const at::Tensor &scale);
  /// Elements from `begin` to before `end`, each as inside a vector.
  void applyInVectors(const std::vector<at::Tensor> &lines, int64_t begin,
                      int64_t end, const at::Tensor &scale);

  const plan::RuleT &rule;
  bool fused;      // its last call writes into its operands
  bool onHost;     // in chunks for its caches and vectors
  int64_t atATime; // elements of a call, or a multiple of it
  std::vector<AtenOp> calls;
  std::vector<std::vector<int>> alike; // of each call: values that must have as
                                       // many elements as the parameter
  StepNumbers::List *numbers;
  bool skips = false;
  bool groups = false; // its kernel takes lists, of the rule's operands alone
  std::map<size_t, AtenOp> grouped; // that call, by how many it updates
  StepScalars scalars;
  std::vector<at::Tensor> values, scratch;
  std::vector<at::Tensor> vectors; // a copy of elements that fill none
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_UPDATERULE_H

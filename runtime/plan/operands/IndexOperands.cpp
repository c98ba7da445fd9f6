// Of kernels that take some operands for indices into others: labels, bags.
#include "plan/operands/Operands.h"

#include <algorithm>

using namespace fsdp::plan;

namespace {

/// Of a class for each sample, or for each of its pixels.
bool isClassBackward(const Operands &of) {
  Shape self = of.shape("self"), target = of.shape("target");
  if (self.empty())
    return false;
  Shape each = self;
  each.erase(each.begin() + (self.size() == 1 ? 0 : 1));
  int64_t classes = self.size() == 1 ? self[0] : self[1];
  bool fits = target == each || (self.size() == 1 && numel(target) == 1);
  return fits && classes > 0 && of.haveElements(classes, {"weight"}) &&
         of.haveElements(1, {"total_weight"}) &&
         (numel(of.shape("grad_output")) == 1 ||
          of.shape("grad_output") == target);
}

bool isMarginBackward(const Operands &of) {
  Shape self = of.shape("self");
  int64_t samples = self.size() == 2 ? self[0] : 1;
  return (self.size() == 1 || self.size() == 2) && isPositive(self) &&
         of.haveSameShape({"self", "target", "is_target"}) &&
         of.haveElements(of.integer("reduction").value_or(0) ? 1 : samples,
                         {"grad_output"});
}

/// Labels of as many samples as there are, no longer than the kernel is told.
bool isAlignment(const Operands &of) {
  Shape probabilities = of.shape("log_probs"), targets = of.shape("targets"),
        steps = of.integers("input_lengths"),
        labels = of.integers("target_lengths");
  if (probabilities.size() != 3 && probabilities.size() != 2)
    return false;
  int64_t samples = probabilities.size() == 3 ? probabilities[1] : 1, sum = 0,
          longest = 0, classes = probabilities.back(),
          blank = of.integer("blank").value_or(0);
  if (int64_t(steps.size()) != samples || int64_t(labels.size()) != samples ||
      blank < 0 || blank >= classes)
    return false;
  for (int64_t length : steps)
    if (length < 0 || length > probabilities[0])
      return false;
  for (int64_t length : labels) {
    if (length < 0 || length > numel(targets))
      return false;
    sum += length;
    longest = std::max(longest, length);
  }
  bool holds = targets.size() == 1
                   ? sum <= targets[0]
                   : targets.size() == 2 && targets[0] == samples &&
                         longest <= targets[1];
  if (!holds || !of.has("log_alpha"))
    return holds;
  Shape table = {samples, probabilities[0], 2 * longest + 1};
  if (probabilities.size() == 2)
    table.erase(table.begin());
  return of.shape("log_alpha") == table &&
         of.haveElements(samples, {"grad", "neg_log_likelihood"});
}

/// One sum for each bag, of rows that indices name.
bool isBag(const Operands &of) {
  Shape indices = of.shape("indices"), offsets = of.shape("offsets");
  return of.shape("weight").size() == 2 && isPositive(of.shape("weight")) &&
         indices.size() == 1 && offsets.size() == 1 && offsets[0] > 0 &&
         of.haveElements(indices[0], {"per_sample_weights"});
}

/// The gradient of such sums. Where each row belongs may be left to the kernel.
bool isBagBackward(const Operands &of) {
  Shape grad = of.shape("grad"), indices = of.shape("indices");
  if (grad.size() != 2 || indices.size() != 1 || !isPositive(grad))
    return false;
  bool isLeft = of.has("offsets") && !numel(of.shape("offset2bag"));
  // Behind the last bag may be where it ends.
  if (of.has("offsets") && of.shape("offsets") != Shape{grad[0]} &&
      of.shape("offsets") != Shape{grad[0] + 1})
    return false;
  bool isLargest = of.integer("mode") == 2 && of.has("maximum_indices");
  return (isLeft || of.haveElements(indices[0], {"offset2bag"})) &&
         of.haveElements(indices[0], {"per_sample_weights"}) &&
         of.haveElements(grad[0], {"bag_size"}) &&
         (!of.has("weight") || (of.shape("weight").size() == 2 &&
                                of.shape("weight")[1] == grad[1])) &&
         (!isLargest || of.shape("maximum_indices") == grad);
}

constexpr Contract indexRows[] = {
    {"aten::nll_loss_backward", isClassBackward},
    {"aten::nll_loss2d_backward", isClassBackward},
    {"aten::multilabel_margin_loss_backward", isMarginBackward},
    {"aten::_ctc_loss", isAlignment},
    {"aten::_ctc_loss_backward", isAlignment},
    {"aten::_embedding_bag", isBag},
    {"aten::_embedding_bag_forward_only", isBag},
    {"aten::_embedding_bag_backward", isBagBackward},
    {"aten::_embedding_bag_dense_backward", isBagBackward},
    {"aten::_embedding_bag_per_sample_weights_backward", isBagBackward},
};

} // namespace

const Contracts fsdp::plan::indexContracts = indexRows;

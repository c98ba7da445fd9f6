#include "executor/UpdateRule.h"

#include "Error.h"
#include "executor/Scalars.h"

#include <ATen/ATen.h>
#include <algorithm>

namespace fsdp {

// Temporaries of one chunk stay in the caches. A multiple of every vector
// width, so that no element moves between a kernel's vector loop and its tail.
static constexpr int64_t chunkElements = 16 * 1024;

UpdateRule::UpdateRule(const plan::RuleT &rule, SiteRandom &random)
    : rule(rule), values(rule.dtypes.size()) {
  for (size_t i = 0; i < rule.calls.size(); ++i)
    calls.emplace_back(*rule.calls[i], "rule " + rule.name, i, random);
}

void UpdateRule::beginStep(uint64_t step, const std::vector<double> &rates) {
  scalars = evaluateScalars(rule.scalars, step, rates);
}

void UpdateRule::apply(const std::vector<at::Tensor> &operands) {
  if (operands.size() != rule.operands ||
      rule.results.size() + 1 != rule.operands)
    throw Error("rule " + rule.name + " takes " +
                std::to_string(rule.operands) + " operands, the plan gives " +
                std::to_string(operands.size()) + "; lower the step again");
  const at::Tensor &first = operands[0];
  int64_t count = first.numel();
  if (count == 0)
    return;
  bool flat = std::all_of(operands.begin(), operands.end(), [&](auto &t) {
    return t.is_non_overlapping_and_dense() && t.strides() == first.strides();
  });
  if (!flat)
    return applyToChunk(operands);
  // Pointwise: the order of dimensions does not matter, memory order is best.
  std::vector<at::Tensor> lines, chunk(operands.size());
  for (const at::Tensor &t : operands)
    lines.push_back(at::as_strided(t, {count}, {1}));
  for (int64_t begin = 0; begin < count; begin += chunkElements) {
    int64_t length = std::min(chunkElements, count - begin);
    for (size_t i = 0; i < lines.size(); ++i)
      chunk[i] = lines[i].narrow(0, begin, length);
    applyToChunk(chunk);
  }
}

void UpdateRule::applyToChunk(const std::vector<at::Tensor> &operands) {
  std::copy(operands.begin(), operands.end(), values.begin());
  for (AtenOp &call : calls) {
    scratch.clear();
    call.bind(values);
    call.run(scalars, scratch);
    call.unbind();
    for (size_t i = 0; i < scratch.size(); ++i)
      if (int v = call.results()[i]; v >= 0)
        values.at(v) = std::move(scratch[i]);
  }
  for (size_t i = 0; i < rule.results.size(); ++i) {
    const at::Tensor &result = values.at(rule.results[i]);
    const at::Tensor &target = operands[i == 0 ? 0 : i + 1];
    if (!result.defined() || result.sizes() != target.sizes() ||
        result.scalar_type() != target.scalar_type())
      throw Error("rule " + rule.name + ": result " + std::to_string(i) +
                  " has not the shape and dtype of what it replaces; a rule "
                  "must be pointwise");
    if (!result.is_alias_of(target) ||
        result.const_data_ptr() != target.const_data_ptr())
      target.copy_(result);
  }
  std::fill(values.begin(), values.end(), at::Tensor());
}

} // namespace fsdp

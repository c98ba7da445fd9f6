#include "executor/UpdateRule.h"

#include "Error.h"
#include "plan/OperatorSchema.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros.h>
#include <algorithm>

namespace fsdp {

// On CPUs temporaries of one chunk stay in the caches; it is a multiple of
// every vector width, so that no element moves between a kernel's vector loop
// and its tail. On GPUs chunks bound what temporaries take, and are large
// enough to fill the device.
static constexpr int64_t hostChunk = 16 * 1024, gpuChunk = 16 * 1024 * 1024;

// A CPU's fused kernel rounds otherwise where elements do not fill a vector. It
// is given whole vectors only, whatever their width.
static constexpr int64_t fusedElements = 16;

/// How many elements, or a multiple of it, a rule's kernels take in a call, so
/// that each is rounded alike wherever it lies.
static int64_t findAtATime(const plan::RuleT &rule, bool fused, bool onHost) {
  if (!onHost || rule.dtypes.empty())
    return 1;
  at::ScalarType dtype = toScalarType(rule.dtypes[0]);
  return fused                              ? fusedElements
         : at::isReducedFloatingType(dtype) ? elementsAtATime(dtype)
                                            : 1;
}

/// The schema's name of an argument.
static std::string nameOf(const plan::AtenT &call, size_t argument) {
  auto handle =
      c10::Dispatcher::singleton().findSchema({call.name, call.overload});
  return handle && argument < handle->schema().arguments().size()
             ? handle->schema().arguments()[argument].name()
             : "";
}

/// The lists of a fused optimizer, but for the one that counts steps: values
/// that have as many elements as the parameter.
static std::vector<int> listsOf(const plan::AtenT &call) {
  std::vector<int> values;
  if (!plan::isFusedOptimizer(call.name))
    return values;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (nameOf(call, i) != "state_steps")
      values.insert(values.end(), call.arguments[i]->values.begin(),
                    call.arguments[i]->values.end());
  return values;
}

/// Whether the rule ends with a fused optimizer whose twin writes into the
/// rule's operands: those that the results replace, and no others.
static bool isFused(const plan::RuleT &rule) {
  if (rule.calls.empty() || !plan::isFusedOptimizer(rule.calls.back()->name))
    return false;
  const plan::AtenT &call = *rule.calls.back();
  // Its first lists are those it returns: parameter, gradient, states. The
  // gradient may have been clipped before.
  for (size_t i = 0; i < rule.operands; ++i)
    if (i >= call.arguments.size() || i >= call.results.size() ||
        call.arguments[i]->values.size() != 1 ||
        (i != 1 && call.arguments[i]->values[0] != static_cast<int>(i)))
      return false;
  // It writes each of its lists, and a gradient that it scales.
  if (listsOf(call).size() != rule.operands)
    return false;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (call.arguments[i]->kind == plan::ArgumentKind::Value &&
        nameOf(call, i) == "grad_scale")
      return false;
  for (size_t i = 0; i < rule.results.size(); ++i)
    if (rule.results[i] != call.results[i == 0 ? 0 : i + 1])
      return false;
  return true;
}

/// Whether a fused rule's kernel takes the rule's operands as they are, and
/// nothing else of the rule depends on a parameter.
static bool takesOperands(const plan::RuleT &rule) {
  auto isOperand = [&](int v) {
    return v >= 0 && v < static_cast<int>(rule.operands);
  };
  std::vector<int> lists = listsOf(*rule.calls.back());
  if (!std::all_of(lists.begin(), lists.end(), isOperand))
    return false;
  for (size_t i = 0; i + 1 < rule.calls.size(); ++i)
    for (const auto &argument : rule.calls[i]->arguments)
      if ((argument->kind == plan::ArgumentKind::Value &&
           isOperand(argument->value)) ||
          std::any_of(argument->values.begin(), argument->values.end(),
                      isOperand))
        return false;
  return true;
}

/// Whether the rule is one addition whose twin in place has the same bits: it
/// rounds to the dtype of what it updates.
static bool addsInPlace(const plan::RuleT &rule) {
  return plan::isAddition(rule) &&
         rule.dtypes.at(0) == rule.dtypes.at(rule.results[0]);
}

UpdateRule::UpdateRule(const plan::RuleT &rule, SiteRandom &random,
                       StepNumbers::List *numbers)
    : rule(rule), fused(isFused(rule)),
      onHost(random.generator().device().is_cpu()),
      atATime(findAtATime(rule, fused, onHost)), numbers(numbers),
      scalars(rule.scalars), values(rule.dtypes.size()) {
  for (size_t i = 0; i < rule.calls.size(); ++i) {
    plan::AtenT call = *rule.calls[i];
    if (fused && i + 1 == rule.calls.size()) {
      call.name += "_";
      call.results.clear();
    } else if (addsInPlace(rule)) {
      call.name += "_";
    }
    calls.emplace_back(call, "rule " + rule.name, i, random, numbers);
    alike.push_back(listsOf(*rule.calls[i]));
  }
  groups = fused && takesOperands(rule);
  skips = numbers && fused && calls.back().setOptional("found_inf", {});
  for (size_t i = 0; atATime > 1 && i < rule.operands; ++i)
    vectors.push_back(at::zeros({atATime}, toScalarType(rule.dtypes.at(i))));
}

void UpdateRule::beginStep(const StepContext &context) {
  scalars.beginStep(context);
  if (numbers)
    numbers->set(scalars.values());
}

static bool liesLike(const at::Tensor &t, const at::Tensor &first) {
  return t.is_non_overlapping_and_dense() && t.sizes() == first.sizes() &&
         t.strides() == first.strides();
}

static at::Tensor lineOf(const at::Tensor &t) {
  return at::as_strided(t, {t.numel()}, {1});
}

static std::vector<at::Tensor> partOf(const std::vector<at::Tensor> &lines,
                                      int64_t begin, int64_t end) {
  std::vector<at::Tensor> part;
  for (const at::Tensor &line : lines)
    part.push_back(line.narrow(0, begin, end - begin));
  return part;
}

bool UpdateRule::canGroup(const std::vector<at::Tensor> &operands) const {
  if (!groups || operands.size() != rule.operands)
    return false;
  int64_t count = operands[0].numel();
  return count > 0 && count % atATime == 0 &&
         std::all_of(
             operands.begin(), operands.end(),
             [&](const at::Tensor &t) { return liesLike(t, operands[0]); });
}

void UpdateRule::applyTogether(
    const std::vector<const std::vector<at::Tensor> *> &all,
    const at::Tensor &skip) {
  // Behind the rule's own values: the operands of each parameter.
  int own = static_cast<int>(rule.dtypes.size()), each = rule.operands;
  auto [known, isNew] = grouped.try_emplace(all.size(), calls.back());
  AtenOp &call = known->second;
  if (isNew)
    call.widenLists([&](int v) {
      std::vector<int> wide(all.size(), v); // the count of steps is everyone's
      for (int k = 0; v < each && k < static_cast<int>(all.size()); ++k)
        wide[k] = own + k * each + v;
      return wide;
    });
  if (readsSkip())
    call.setOptional("found_inf", skip);
  std::vector<at::Tensor> wide(own);
  for (size_t i = 0; i + 1 < calls.size(); ++i)
    runCall(calls[i], wide);
  for (const std::vector<at::Tensor> *operands : all)
    for (const at::Tensor &operand : *operands)
      wide.push_back(lineOf(operand));
  runCall(call, wide);
}

void UpdateRule::apply(const std::vector<at::Tensor> &operands,
                       const at::Tensor &scale, const at::Tensor &skip,
                       const std::vector<ElementRange> &leftover) {
  if (readsSkip())
    calls.back().setOptional("found_inf", skip);
  if (operands.size() != rule.operands || rule.results.size() >= rule.operands)
    throw Error(E::PlanOperator, "rule " + rule.name + " takes " +
                                     std::to_string(rule.operands) +
                                     " operands, the plan gives " +
                                     std::to_string(operands.size()) +
                                     "; lower the step again");
  const at::Tensor &first = operands[0];
  int64_t count = first.numel();
  if (count == 0)
    return;
  auto isLikeFirst = [&](const at::Tensor &t) { return liesLike(t, first); };
  std::vector<at::Tensor> given = operands, lines;
  // The kernel takes a gradient as the parameter lies, as autograd's does.
  if (fused && !isLikeFirst(given[1]))
    given[1] = at::empty_like(first).copy_(given[1]);
  if (!std::all_of(given.begin(), given.end(), isLikeFirst)) {
    if (fused)
      throw Error(
          E::PlanOperator,
          "rule " + rule.name +
              " has states that do not lie in memory as their parameter; "
              "lower the step again");
    return applyToChunk(operands, scale);
  }
  // Pointwise: the order of dimensions does not matter, memory order is best.
  for (const at::Tensor &t : given)
    lines.push_back(lineOf(t));
  int64_t at = 0;
  for (const ElementRange &range : leftover) {
    applyInVectors(lines, at, range.begin, scale);
    applyToChunk(partOf(lines, range.begin, range.end), scale);
    at = range.end;
  }
  applyInVectors(lines, at, count, scale);
}

void UpdateRule::applyInVectors(const std::vector<at::Tensor> &lines,
                                int64_t begin, int64_t end,
                                const at::Tensor &scale) {
  int64_t rest = (end - begin) % atATime, whole = end - rest;
  // A fused kernel alone has no temporaries.
  bool alone = fused && !scale.defined() && calls.size() == 1;
  int64_t most = alone ? whole - begin : onHost ? hostChunk : gpuChunk;
  for (int64_t i = begin; i < whole; i += most)
    applyToChunk(partOf(lines, i, std::min(i + most, whole)), scale);
  if (rest == 0)
    return;
  std::vector<at::Tensor> part = partOf(lines, whole, end),
                          copy = partOf(vectors, 0, rest);
  for (size_t i = 0; i < part.size(); ++i)
    copy[i].copy_(part[i]);
  applyToChunk(vectors, scale);
  for (size_t i = 0; i <= rule.results.size(); ++i)
    if (i != 1)
      part[i].copy_(copy[i]);
}

void UpdateRule::runCall(AtenOp &call, std::vector<at::Tensor> &operands) {
  scratch.clear();
  call.bind(operands);
  call.run(scalars.values(), scratch);
  call.unbind();
  for (size_t i = 0; i < scratch.size(); ++i)
    if (int v = call.results()[i]; v >= 0)
      operands.at(v) = std::move(scratch[i]);
}

void UpdateRule::applyToChunk(std::vector<at::Tensor> operands,
                              const at::Tensor &scale) {
  if (scale.defined())
    operands[1] = at::mul(operands[1], scale);
  std::copy(operands.begin(), operands.end(), values.begin());
  for (AtenOp &call : calls) {
    for (int v : alike[&call - calls.data()])
      if (values.at(v).numel() != operands[0].numel())
        throw Error(E::PlanOperator, call.description() + ": takes " +
                                         std::to_string(values.at(v).numel()) +
                                         " elements beside a parameter of " +
                                         std::to_string(operands[0].numel()) +
                                         "; a rule must be pointwise");
    runCall(call, values);
  }
  // The twin has written the results where they belong.
  for (size_t i = 0; !fused && i < rule.results.size(); ++i) {
    const at::Tensor &result = values.at(rule.results[i]);
    const at::Tensor &target = operands[i == 0 ? 0 : i + 1];
    if (!result.defined() || result.sizes() != target.sizes() ||
        result.scalar_type() != target.scalar_type())
      throw Error(
          E::PlanOperator,
          "rule " + rule.name + ": result " + std::to_string(i) +
              " has not the shape and dtype of what it replaces; a rule "
              "must be pointwise");
    if (!result.is_alias_of(target) ||
        result.const_data_ptr() != target.const_data_ptr())
      target.copy_(result);
  }
  std::fill(values.begin(), values.end(), at::Tensor());
}

} // namespace fsdp

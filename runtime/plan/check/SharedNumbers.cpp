#include "plan/check/SharedNumbers.h"

#include "plan/CommandValues.h"

#include <cmath>
#include <numeric>

using namespace fsdp::plan;

SharedNumbers::SharedNumbers(const PlanT &plan, const ProgramT &program)
    : plan(plan), program(program), norms(program.values.size(), Norm::None),
      origins(program.values.size()) {
  std::iota(origins.begin(), origins.end(), 0);
  for (size_t i = 0; i < program.values.size(); ++i)
    if (const ValueT &part = *program.values[i]; part.part_of != -1)
      parts[{part.part_of, part.place->offset()}].push_back(i);
}

/// The value that views of all of its elements lead to.
static int viewedWhole(const ProgramT &program, int value) {
  for (const ValueT *v = program.values[value].get();
       v->view_of != -1 &&
       *numElements(v->shape) * dtypeBytes(v->dtype) == v->place->bytes();
       v = program.values[value].get())
    value = v->view_of;
  return value;
}

int SharedNumbers::originOf(int value) const {
  if (value == -1)
    return -1;
  int origin = origins[viewedWhole(program, value)];
  const ValueT &part = *program.values[origin];
  if (part.part_of == -1)
    return origin;
  int whole = origins[part.part_of];
  return whole == part.part_of ? origin : samePartOf(whole, origin);
}

int SharedNumbers::samePartOf(int whole, int copied) const {
  const ValueT &part = *program.values[copied];
  auto begins = [&](int value) {
    return program.values[value]->place->offset();
  };
  auto same = parts.find(
      {whole, begins(whole) + begins(copied) - begins(part.part_of)});
  if (same != parts.end())
    for (int i : same->second)
      if (const ValueT &other = *program.values[i];
          other.shape == part.shape && other.dtype == part.dtype)
        return i;
  return copied;
}

void SharedNumbers::follow(const CommandT &command) {
  if (const AtenT *call = command.operation.AsAten())
    follow(*call);
  else if (const CopyT *copy = command.operation.AsCopy())
    follow(*copy);
  else if (const CollectiveT *c = command.operation.AsCollective())
    norms[c->destination] = norms[c->source];
}

/// The norm that a sum of powers belongs to, by its exponent.
static Norm normOfPowerSum(const AtenT &call) {
  Norm norm = Norm::None;
  for (const auto &argument : call.arguments)
    if (argument->kind == ArgumentKind::Double)
      norm = std::isinf(*argument->d) ? Norm::Largest : Norm::Sum;
  return norm;
}

/// Whether an operator joins numbers of a norm to one of the same norm, as
/// those of several units are.
static bool joins(const std::string &name, Norm norm) {
  if (name == "aten::stack")
    return true;
  return norm == Norm::Sum       ? name == "aten::sum" || name == "aten::div"
         : norm == Norm::Largest ? name == "aten::amax"
                                 : false;
}

Norm SharedNumbers::commonNorm(const std::vector<int> &values) const {
  for (int value : values)
    if (norms[value] != norms[values[0]])
      return Norm::None;
  return values.empty() ? Norm::None : norms[values[0]];
}

void SharedNumbers::follow(const AtenT &call) {
  std::vector<int> operands = operandsOf(call);
  Norm norm = Norm::None;
  if (call.name == "fsdp_mlir::power_sum") {
    norm = normOfPowerSum(call);
    for (int gradient : operands)
      note(normed, gradient);
  } else if (Norm common = commonNorm(operands); joins(call.name, common)) {
    norm = common;
  } else if (call.name == "aten::eq" ||
             (call.name == "aten::_to_copy" && common == Norm::Truth)) {
    norm = Norm::Truth;
  }
  for (int result : call.results)
    if (result != -1) {
      norms[result] = norm;
      if (call.name == "aten::clone" && !operands.empty())
        origins[result] = originOf(operands[0]);
    }
}

void SharedNumbers::follow(const CopyT &copy) {
  for (const auto &piece : copy.pieces) {
    uint64_t whole = program.values[piece->destination]->place->bytes();
    if (piece->source != -1 && piece->blocks == 1 &&
        piece->block_bytes == whole &&
        piece->block_bytes == program.values[piece->source]->place->bytes())
      origins[piece->destination] = originOf(piece->source);
  }
}

void SharedNumbers::checkUpdate(const Checked &here, const UpdateT &update) {
  const StateT &parameter = *plan.states[update.parameter];
  if (parameter.role != Role::Parameter)
    return;
  int scale = originOf(update.scale), skip = originOf(update.skip);
  scaledBy = scaledBy.value_or(scale);
  int ofRule = skippedOn.try_emplace(update.rule, skip).first->second;
  note(used, update.gradient);
  here.require(C26, scale == *scaledBy && skip == ofRule, "updates '",
               parameter.fqn,
               "' by another scale, or on another condition, than others "
               "before it");
}

void SharedNumbers::note(std::set<int> &gradients, int value) const {
  // A gradient without elements adds nothing to a norm, and no copy moves it.
  if (program.values[value]->place->bytes())
    gradients.insert(originOf(value));
}

void SharedNumbers::finish(const Checked &at) const {
  at.require(C26, normed.empty() || normed == used,
             "its norm is not of the gradients that update parameters");
}

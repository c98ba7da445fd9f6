#include "plan/check/SharedNumbers.h"

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

int SharedNumbers::originOf(int value) const {
  if (value == -1)
    return -1;
  // What looks at all of a value is that value.
  for (const ValueT *v = program.values[value].get();
       v->view_of != -1 &&
       *numElements(v->shape) * dtypeBytes(v->dtype) == v->place->bytes();
       v = program.values[value].get())
    value = v->view_of;
  int origin = origins[value];
  const ValueT &part = *program.values[origin];
  if (part.part_of == -1 || origins[part.part_of] == part.part_of)
    return origin;
  // A part of a copy is a copy of that part.
  int whole = origins[part.part_of];
  auto begins = [&](int value) {
    return program.values[value]->place->offset();
  };
  auto same = parts.find(
      {whole, begins(whole) + begins(origin) - begins(part.part_of)});
  if (same != parts.end())
    for (int i : same->second)
      if (const ValueT &other = *program.values[i];
          other.shape == part.shape && other.dtype == part.dtype)
        return i;
  return origin;
}

void SharedNumbers::follow(const CommandT &command) {
  if (const AtenT *call = command.operation.AsAten())
    follow(*call);
  else if (const CopyT *copy = command.operation.AsCopy())
    follow(*copy);
  else if (const CollectiveT *c = command.operation.AsCollective())
    norms[c->destination] = norms[c->source];
}

/// The first of all is a sum of powers of gradients; further operators join
/// those of several units.
void SharedNumbers::follow(const AtenT &call) {
  bool isPower = call.name == "fsdp_mlir::power_sum";
  std::vector<int> read;
  std::optional<Norm> norm;
  for (const auto &argument : call.arguments) {
    if (argument->kind == ArgumentKind::Value)
      read.push_back(argument->value);
    for (int value : argument->values)
      if (argument->kind == ArgumentKind::ValueList && value != -1)
        read.push_back(value);
    if (isPower && argument->kind == ArgumentKind::Double)
      norm = std::isinf(*argument->d) ? Norm::Largest : Norm::Sum;
  }
  for (int value : read)
    if (isPower)
      note(normed, value);
    else
      norm = norm && *norm != norms[value] ? Norm::None : norms[value];
  bool keeps = isPower || call.name == "aten::stack" ||
               (call.name == "aten::sum" && norm == Norm::Sum) ||
               (call.name == "aten::div" && norm == Norm::Sum) ||
               (call.name == "aten::amax" && norm == Norm::Largest);
  for (int result : call.results)
    if (result != -1) {
      norms[result] = keeps && norm ? *norm : Norm::None;
      if (call.name == "aten::clone" && !read.empty())
        origins[result] = originOf(read[0]);
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
  std::pair<int, int> numbers(originOf(update.scale), originOf(update.skip));
  if (!ofUpdates)
    ofUpdates = numbers;
  note(used, update.gradient);
  here.require(C26, numbers == *ofUpdates, "updates '", parameter.fqn,
               "' by another scale, or on another condition, than others "
               "before it");
}

void SharedNumbers::note(std::set<int> &gradients, int value) const {
  // What has no elements adds nothing to a norm, and no copy moves it.
  if (program.values[value]->place->bytes())
    gradients.insert(originOf(value));
}

void SharedNumbers::finish(const Checked &at) const {
  at.require(C26, normed.empty() || normed == used,
             "its norm is not of the gradients that update parameters");
}

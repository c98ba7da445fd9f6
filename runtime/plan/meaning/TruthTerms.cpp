// What calls make of truth values, and of the numbers 0 and 1 that they are
// cast to: those by which micro-batches and ranks agree on leaving an update
// out.
#include "plan/StateNames.h"
#include "plan/check/LiveRanges.h"
#include "plan/meaning/ProgramTerms.h"

using namespace fsdp::plan;

/// Numbers beside each other; whether they are without dimensions.
bool ProgramTerms::stack(const AtenT &call, int result) {
  Extents all;
  for (int member : call.arguments[0]->values) {
    const ValueT *value = member == -1 ? nullptr : &*program.values[member];
    if (!value || !value->shape.empty() || opaque.count(member) ||
        value->dtype != program.values[result]->dtype)
      return false;
    uint64_t begin = all.empty() ? 0 : all.back().end();
    for (Extent part : read(member)) {
      part.begin += begin;
      append(all, part);
    }
  }
  write(result, all);
  return true;
}

bool ProgramTerms::callOfTruth(const AtenT &call) {
  if (call.arguments.empty() || call.results.size() != 1 ||
      call.results[0] == -1)
    return false;
  int result = call.results[0];
  const ArgumentT &first = *call.arguments[0];
  if (call.name == "aten::stack" && first.kind == ArgumentKind::ValueList)
    return stack(call, result);
  if (first.kind != ArgumentKind::Value ||
      !lieAlike(*program.values[first.value], *program.values[result],
                bytesOf(first.value)))
    return false;

  DType from = program.values[first.value]->dtype;
  Extents given = read(first.value);
  auto areAll = [&](auto holds) {
    for (const Extent &extent : given)
      if (!holds(terms[extent.term]))
        return false;
    return true;
  };
  auto isTruth = [](const TermInfo &term) {
    return term.kind == TermInfo::Cast && term.from == DType::Bool;
  };
  if (call.name == "aten::logical_not" && from == DType::Bool) {
    writeEach(result, given, from,
              [&](Term term) { return terms.negated(term); });
    return true;
  }
  if (call.name == "aten::isfinite" && areAll([](const TermInfo &term) {
        return term.kind != TermInfo::Composite;
      })) {
    writeEach(result, given, from,
              [&](Term term) { return terms.finite(term); });
    return true;
  }
  if (call.arguments.size() != 2)
    return false;
  const ArgumentT &second = *call.arguments[1];
  // A number that is 0 or 1 is zero where what it says does not hold.
  if (call.name == "aten::eq" && call.overload == "Scalar" &&
      second.kind == ArgumentKind::Double && second.d == 0 && areAll(isTruth)) {
    writeEach(result, given, from,
              [&](Term term) { return terms.negated(terms[term].of); });
    return true;
  }
  if (call.name != "aten::maximum" || second.kind != ArgumentKind::Value ||
      bytesOf(first.value) != dtypeBytes(from) ||
      bytesOf(second.value) != bytesOf(first.value))
    return false;
  std::optional<Term> before = termOf(first.value), own = termOf(second.value);
  if (!before || !own || !isTruth(terms[*own]))
    return false;
  // Whether this micro-batch or one before it has given a gradient.
  int state = stateOf(first.value);
  bool isSoFar = state != -1 && !written.count(state) &&
                 plan.states[state]->fqn.rfind(givenStatePrefix, 0) == 0;
  if (!isSoFar && !isTruth(terms[*before]))
    return false;
  const TermInfo truth = terms[*own];
  Term both = isSoFar
                  ? terms.accumulated(truth.of, state, plan.states[state]->fqn)
                  : terms.either(terms[*before].of, truth.of);
  write(result,
        {{0, bytesOf(result), terms.cast(both, DType::Bool, truth.to)}});
  return true;
}

// What calls make of truth values, and of the numbers 0 and 1 that they are
// cast to: those by which micro-batches and ranks agree on leaving an update
// out.
#include "plan/StateNames.h"
#include "plan/check/LiveRanges.h"
#include "plan/meaning/ProgramTerms.h"

using namespace fsdp::plan;

static bool isTruth(const TermInfo &term) {
  return term.kind == TermInfo::Cast && term.from == DType::Bool;
}

/// The one argument of a call, or the first of two, where the result's elements
/// lie as its own do; -1.
int ProgramTerms::givenAlike(const AtenT &call) {
  const ArgumentT &first = *call.arguments[0];
  bool isAlike =
      first.kind == ArgumentKind::Value &&
      lieAlike(*program.values[first.value], *program.values[call.results[0]],
               bytesOf(first.value));
  return isAlike ? first.value : -1;
}

/// Numbers beside each other; those that have no dimensions.
bool ProgramTerms::stack(const AtenT &call) {
  int result = call.results[0];
  if (call.arguments[0]->kind != ArgumentKind::ValueList)
    return false;
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

bool ProgramTerms::negate(const AtenT &call) {
  int given = givenAlike(call);
  if (given == -1 || program.values[given]->dtype != DType::Bool)
    return false;
  writeEach(call.results[0], read(given), DType::Bool,
            [&](Term term) { return terms.negated(term); });
  return true;
}

bool ProgramTerms::askWhetherFinite(const AtenT &call) {
  int given = givenAlike(call);
  if (given == -1)
    return false;
  Extents of = read(given);
  for (const Extent &extent : of)
    if (terms[extent.term].kind == TermInfo::Composite)
      return false;
  writeEach(call.results[0], of, program.values[given]->dtype,
            [&](Term term) { return terms.finite(term); });
  return true;
}

/// A number that is 0 or 1 is zero where what it says does not hold.
bool ProgramTerms::compareWithZero(const AtenT &call) {
  int given = givenAlike(call);
  if (given == -1 || call.overload != "Scalar" || call.arguments.size() != 2 ||
      call.arguments[1]->kind != ArgumentKind::Double ||
      call.arguments[1]->d != 0)
    return false;
  Extents of = read(given);
  for (const Extent &extent : of)
    if (!isTruth(terms[extent.term]))
      return false;
  writeEach(call.results[0], of, program.values[given]->dtype,
            [&](Term term) { return terms.negated(terms[term].of); });
  return true;
}

/// The larger of two numbers that are 0 or 1; the first may be a state: whether
/// a micro-batch before this one has given a gradient.
bool ProgramTerms::takeLarger(const AtenT &call) {
  int first = givenAlike(call);
  if (first == -1 || call.arguments.size() != 2 ||
      call.arguments[1]->kind != ArgumentKind::Value)
    return false;
  int second = call.arguments[1]->value;
  if (bytesOf(first) != dtypeBytes(program.values[first]->dtype) ||
      bytesOf(second) != bytesOf(first))
    return false;
  std::optional<Term> before = termOf(first), own = termOf(second);
  if (!before || !own || !isTruth(terms[*own]))
    return false;
  int state = stateOf(first);
  bool isSoFar = state != -1 && !written.count(state) &&
                 plan.states[state]->fqn.rfind(givenStatePrefix, 0) == 0;
  if (!isSoFar && !isTruth(terms[*before]))
    return false;
  const TermInfo truth = terms[*own];
  Term both = isSoFar
                  ? terms.accumulated(truth.of, state, plan.states[state]->fqn)
                  : terms.either(terms[*before].of, truth.of);
  int result = call.results[0];
  write(result,
        {{0, bytesOf(result), terms.cast(both, DType::Bool, truth.to)}});
  return true;
}

bool ProgramTerms::callOfTruth(const AtenT &call) {
  using Rule = bool (ProgramTerms::*)(const AtenT &);
  static const std::map<std::string, Rule> rules = {
      {"aten::stack", &ProgramTerms::stack},
      {"aten::logical_not", &ProgramTerms::negate},
      {"aten::isfinite", &ProgramTerms::askWhetherFinite},
      {"aten::eq", &ProgramTerms::compareWithZero},
      {"aten::maximum", &ProgramTerms::takeLarger},
  };
  auto rule = rules.find(call.name);
  return rule != rules.end() && !call.arguments.empty() &&
         call.results.size() == 1 && call.results[0] != -1 &&
         (this->*rule->second)(call);
}

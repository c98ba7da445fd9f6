// What calls make of terms: views are where they look, and what is done to each
// element, or to none, is done to whole tensors and to parts of them alike.
#include "plan/StateNames.h"
#include "plan/check/LiveRanges.h"
#include "plan/meaning/ProgramTerms.h"

using namespace fsdp::plan;

void ProgramTerms::look(const AtenT &call) {
  int argument = -1;
  for (const auto &given : call.arguments)
    if (given->kind == ArgumentKind::Value && argument == -1)
      argument = given->value;
  for (size_t r = 0; r < call.results.size(); ++r) {
    int result = call.results[r];
    if (result == -1)
      continue;
    // Numbers in pairs are complex ones.
    bool isInPairs = call.name == "aten::view_as_real" ||
                     call.name == "aten::view_as_complex";
    if (isInPairs && argument != -1 && !opaque.count(argument)) {
      lookAt[result] = lookAt[argument];
      continue;
    }
    bool absolute = false;
    std::optional<int64_t> offset;
    const ValueT &value = *program.values[result];
    if (argument != -1 && value.dtype == program.values[argument]->dtype)
      offset = viewOffset(call, *program.values[argument], r, absolute);
    uint64_t size = dtypeBytes(value.dtype), begins = 0;
    uint64_t all = argument == -1 ? 0 : bytesOf(baseOf(argument));
    if (offset && *offset >= 0 && uint64_t(*offset) <= all / size)
      begins = *offset * size + (absolute ? 0 : lookAt[argument]);
    else
      offset.reset();
    if (offset && begins + bytesOf(result) <= all && !opaque.count(argument)) {
      lookAt[result] = begins;
      continue;
    }
    std::vector<Term> operands;
    DigestOf digest = digestOf(call, operands);
    digest << uint64_t(r);
    opaque[result] = terms.leaf(digest, operands);
  }
}

bool fsdp::plan::lieAlike(const ValueT &a, const ValueT &b, uint64_t spanned) {
  return a.shape == b.shape && a.strides == b.strides &&
         spanned == *numElements(a.shape) * dtypeBytes(a.dtype);
}

DigestOf ProgramTerms::digestOf(const AtenT &call,
                                std::vector<Term> &operands) {
  DigestOf digest;
  addCall(digest, call, numbers,
          [&](int value) { describe(digest, value, operands); });
  return digest;
}

namespace {

/// Whether a padding adds rows of zeros behind the last row, and nothing else.
bool addsRows(const AtenT &call, const ValueT &from) {
  if (call.arguments.size() < 2 || call.results.size() != 1)
    return false;
  const std::vector<int64_t> &pad = call.arguments[1]->ints;
  if (from.shape.empty() || pad.size() != 2 * from.shape.size())
    return false;
  for (size_t i = 0; i + 1 < pad.size(); ++i)
    if (pad[i])
      return false;
  const auto &value = call.arguments.back();
  bool isZero = call.arguments.size() == 2 ||
                value->kind == ArgumentKind::Default ||
                (value->kind == ArgumentKind::Int && !value->i) ||
                (value->kind == ArgumentKind::Double && value->d == 0);
  return isZero && pad.back() >= 0;
}

} // namespace

/// Whether a call takes a whole value or another one.
bool ProgramTerms::isChoice(const AtenT &call) {
  if (call.name != "aten::where" || call.overload != "self" ||
      call.results[0] == -1 || call.arguments.size() != 3)
    return false;
  for (const auto &argument : call.arguments)
    if (argument->kind != ArgumentKind::Value)
      return false;
  int taken = call.arguments[2]->value;
  return lieAlike(*program.values[taken], *program.values[call.results[0]],
                  bytesOf(taken)) &&
         !operandOf(taken).offset;
}

void ProgramTerms::call(const AtenT &call) {
  if (callAlike(call) || callOfTruth(call))
    return;
  std::vector<Term> operands;
  DigestOf digest = digestOf(call, operands);
  for (size_t r = 0; r < call.results.size(); ++r) {
    int result = call.results[r];
    if (result == -1)
      continue;
    const ValueT &value = *program.values[result];
    DigestOf own = digest;
    own << uint64_t(r) << uint64_t(value.dtype) << value.shape << value.strides;
    Term made = isChoice(call) ? terms.chosen(own, operands)
                               : terms.leaf(own, operands);
    write(result, {{0, bytesOf(result), made}});
  }
}

/// The calls that are no leaf: each a rule of docs/checker.md. Those of truth
/// values are in TruthTerms.cpp.
bool ProgramTerms::callAlike(const AtenT &call) {
  if (call.arguments.empty() ||
      call.arguments[0]->kind != ArgumentKind::Value ||
      call.results.size() != 1 || call.results[0] == -1)
    return false;
  int source = call.arguments[0]->value, result = call.results[0];
  const ValueT &from = *program.values[source], &to = *program.values[result];
  bool alike = lieAlike(from, to, bytesOf(source));
  bool isRowMajor = to.strides == rowMajorStrides(to.shape);
  auto each = [&](Extents extents, auto change) {
    writeEach(result, std::move(extents), from.dtype, change);
    return true;
  };
  auto same = [&](int value) {
    const ValueT &given = *program.values[value];
    if (given.dtype != to.dtype || given.shape != to.shape)
      return false;
    if (lieAlike(given, to, bytesOf(value)))
      write(result, read(value));
    else if (isRowMajor)
      write(result, rowMajor(value));
    else
      return false;
    return true;
  };
  if (call.name == "aten::clone" || call.name == "aten::contiguous")
    return same(source);
  if (call.name == "aten::_to_copy") {
    auto cast = [&](Term term) {
      return terms.cast(term, from.dtype, to.dtype);
    };
    if (alike)
      return each(read(source), cast);
    if (from.dtype == to.dtype)
      return same(source);
    return from.shape == to.shape && isRowMajor && each(rowMajor(source), cast);
  }
  if (call.name == "aten::div" && call.overload == "Scalar" && alike &&
      from.dtype == to.dtype && call.arguments.size() == 2 &&
      call.arguments[1]->kind == ArgumentKind::Double)
    return each(read(source), [&](Term term) {
      return terms.divided(term, *call.arguments[1]->d);
    });
  if (call.name == "aten::constant_pad_nd" && addsRows(call, from) &&
      isRowMajor && bytesOf(result) >= bytesOf(source) &&
      from.strides == rowMajorStrides(from.shape)) {
    Extents parts = contentOf(rootOf(program, source))
                        .resolve(terms, beginOf(source), bytesOf(source));
    for (const Extent &part : parts)
      if (part.rankStep || opaque.count(source))
        return false;
    append(parts,
           {bytesOf(source), bytesOf(result) - bytesOf(source), terms.zero()});
    write(result, {{0, bytesOf(result), terms.composite(parts)}});
    return true;
  }
  // What the passes add to the sequential step: a loss that is not finite
  // begins with NaN, sums over micro-batches, and the scale of the loss, which
  // updates take back.
  if (call.arguments.size() < 2 ||
      call.arguments[1]->kind != ArgumentKind::Value ||
      (call.arguments.size() > 2 &&
       call.arguments[2]->kind != ArgumentKind::Default))
    return false;
  int other = call.arguments[1]->value;
  if (call.name == "aten::sub" && call.overload == "Tensor" &&
      source == other) {
    write(result, {{0, bytesOf(result), terms.zero()}});
    return true;
  }
  bool isAddition = call.name == "aten::add" && call.overload == "Tensor";
  if (Extents added = read(other);
      isAddition && added.size() == 1 && added[0].term == terms.zero())
    return same(source);
  int state = stateOf(source);
  if (state == -1)
    return false;
  if (call.name == "aten::mul" && call.overload == "Tensor" &&
      plan.states[state]->fqn == scaleStateName)
    return same(other);
  if (!isAddition || plan.states[state]->role != Role::Gradient ||
      written.count(state) || beginOf(source) ||
      bytesOf(source) != ofState(state).bytes() || !same(other))
    return false;
  Extents sum = read(result);
  for (Extent &extent : sum)
    extent.term =
        terms.accumulated(extent.term, state, plan.states[state]->fqn);
  write(result, sum);
  return true;
}

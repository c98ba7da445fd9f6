// A program run on terms in place of numbers: what each value, output and
// gradient is made of. Its indices must have been checked.
#ifndef FSDP_PLAN_MEANING_PROGRAMTERMS_H
#define FSDP_PLAN_MEANING_PROGRAMTERMS_H

#include "plan/meaning/TermContent.h"

#include <functional>
#include <set>

namespace fsdp::plan {

/// What states are, whose elements a flat one holds, in their order, and each
/// step number's digest: what does not change while a plan's programs are
/// followed.
class PlanTerms {
public:
  explicit PlanTerms(const PlanT &plan);

  /// The states whose elements [begin, end) of `state` are: itself, or its
  /// members there; 0, 0: all.
  std::vector<uint32_t> membersOf(uint32_t state, uint64_t begin = 0,
                                  uint64_t end = 0) const;
  /// The state of `parameter` that is, or whose elements are in, `state`; -1.
  int memberOf(uint32_t state, uint32_t parameter) const;
  /// What a state is: its name, type and owner, and how it begins.
  Digest state(uint32_t index) const { return states[index]; }
  /// The term that a whole state is before a program.
  DigestOf leafOf(uint32_t state) const { return DigestOf() << states[state]; }

  std::vector<Digest>
  numbers(const std::vector<std::unique_ptr<ScalarT>> &scalars) const;
  Digest rule(uint32_t index) const { return rules[index]; }

  const PlanT &plan;

private:
  Digest digestOfRule(const RuleT &rule) const;

  std::map<uint32_t, std::vector<uint32_t>> members; // by flat_offset
  std::map<std::pair<uint32_t, uint32_t>, int> ofParameter;
  std::vector<Digest> states, hyperparameters, rules;
};

/// The memory of a program, whose bytes are terms'.
class ProgramTerms {
public:
  ProgramTerms(const PlanTerms &shared, const ProgramT &program,
               CheckingBudget &budget);

  /// Runs a call, a copy or a collective. What an update does, its caller says
  /// by `change`.
  void follow(const CommandT &command);

  /// A value's bytes as if it were row-major, on this rank.
  Extents rowMajor(int value);
  /// A term for a value and how it lies there: operators see both. `unknown`
  /// becomes why it cannot be compared, where it cannot.
  Digest digestOf(int value, std::string *unknown = nullptr);
  /// The term that all of a value is; none: it is a part of one.
  std::optional<Term> termOf(int value);
  /// A state's bytes, with composites as their parts.
  Extents resolve(uint32_t state);

  void change(uint32_t state, const Extents &extents);
  void write(int value, const Extents &extents);

  Terms terms;
  /// The states that a command has written.
  std::set<uint32_t> written;

private:
  struct Operand {
    Term term;
    uint64_t offset;
  };

  Content &contentOf(int root);
  Content &ofState(uint32_t state);
  Content firstOf(uint32_t state);
  void set(int value, Content content);
  uint64_t bytesOf(int value) const;
  int baseOf(int value) const;
  /// Where a value begins in its root's bytes.
  uint64_t beginOf(int value) const;
  Extents read(int value);
  Operand operandOf(int value);
  void describe(DigestOf &digest, int value, std::vector<Term> &operands);
  int stateOf(int value) const;

  void look(const AtenT &call);
  void call(const AtenT &call);
  bool isChoice(const AtenT &call);
  bool callAlike(const AtenT &call);
  /// Rules of calls by name, and whether one of them holds; what each takes is
  /// in TruthTerms.cpp.
  bool callOfTruth(const AtenT &call);
  bool stack(const AtenT &call);
  bool negate(const AtenT &call);
  bool askWhetherFinite(const AtenT &call);
  bool compareWithZero(const AtenT &call);
  bool takeLarger(const AtenT &call);
  int givenAlike(const AtenT &call);
  /// A result each of whose elements is what is made of one of `extents`, whose
  /// elements lie alike.
  void writeEach(int result, Extents extents, DType from,
                 const std::function<Term(Term)> &change);
  DigestOf digestOf(const AtenT &call, std::vector<Term> &operands);
  void copy(const PieceT &piece);
  void exchange(const CollectiveT &collective);

  const PlanTerms &shared;
  const PlanT &plan;
  const ProgramT &program;
  std::vector<Digest> numbers;
  std::map<int, Content> contents; // by root
  std::map<uint32_t, Content> states;
  std::vector<uint64_t> lookAt; // bytes behind what a view looks into
  std::map<int, Term> opaque;   // views of which that is not known
};

/// Adds to a digest what a call says beside its values; `value(i)` adds those.
template <typename Fn>
void addCall(DigestOf &digest, const AtenT &call,
             const std::vector<Digest> &numbers, Fn value) {
  digest << call.name << call.overload << uint64_t(call.arguments.size());
  for (const auto &argument : call.arguments) {
    digest << uint64_t(argument->kind);
    switch (argument->kind) {
    case ArgumentKind::Value:
      value(argument->value);
      break;
    case ArgumentKind::ValueList:
      digest << uint64_t(argument->values.size());
      for (int member : argument->values)
        member == -1 ? void(digest << uint64_t(0)) : value(member);
      break;
    case ArgumentKind::Scalar:
      digest << numbers[argument->value];
      break;
    case ArgumentKind::IntList:
    case ArgumentKind::BoolList:
      digest << argument->ints;
      break;
    case ArgumentKind::Double:
      digest << argument->d.value_or(0);
      break;
    case ArgumentKind::DoubleList:
    case ArgumentKind::Complex:
      digest << uint64_t(argument->doubles.size());
      for (double number : argument->doubles)
        digest << number;
      break;
    case ArgumentKind::String:
      digest << argument->s;
      break;
    default: // the schema's default, none, or one integer
      digest << static_cast<uint64_t>(argument->i);
    }
  }
}

/// Whether two values have their elements at the same places, without gaps.
/// `spanned`: the bytes of `a`.
bool lieAlike(const ValueT &a, const ValueT &b, uint64_t spanned);

/// How many elements behind its argument's first one a view's result begins; of
/// a call whose operator is not known to be such a view, nothing. `absolute`:
/// behind the first one of what the argument looks into.
std::optional<int64_t> viewOffset(const AtenT &call, const ValueT &argument,
                                  size_t result, bool &absolute);

} // namespace fsdp::plan

#endif // FSDP_PLAN_MEANING_PROGRAMTERMS_H

// Shared by the files of the plan checker; not for others.
#ifndef FSDP_PLAN_CHECK_CHECKERSUPPORT_H
#define FSDP_PLAN_CHECK_CHECKERSUPPORT_H

#include "plan/check/PlanChecker.h"

#include <algorithm>
#include <map>
#include <sstream>

namespace fsdp::plan {

/// The entry that is being checked. Each check is a line: the constraint, what
/// must hold, and what is said when it does not.
class Checked {
public:
  explicit Checked(const PlanT &plan) : plan(plan) {}

  /// An entry of the plan; of the rule or program that this one is, or is in.
  Checked at(PlanEntry::Kind kind, size_t index) const {
    bool owns =
        entry.kind == PlanEntry::Rule || entry.kind == PlanEntry::Program;
    return Checked(plan, {kind, index, owns ? entry.index : entry.owner}, "");
  }
  /// Something in this entry, for messages.
  template <typename... Parts> Checked inside(const Parts &...parts) const {
    return Checked(plan, entry,
                   text(detail, detail.empty() ? "" : ": ", parts...));
  }
  template <typename... Parts>
  [[noreturn]] void fail(Constraint constraint, const Parts &...why) const {
    raise(constraint, std::nullopt, text(why...));
  }
  /// The command should have waited for `other`, one of the same program; or
  /// for the program before.
  template <typename... Parts>
  [[noreturn]] void failToAwait(Constraint constraint,
                                std::optional<uint32_t> other,
                                const Parts &...why) const {
    raise(constraint, other, text(why...));
  }
  template <typename... Parts>
  void require(Constraint constraint, bool holds, const Parts &...why) const {
    if (!holds)
      fail(constraint, why...);
  }
  /// An index into `size` things called `thing`.
  void index(int64_t i, size_t size, const char *thing) const {
    require(C1, i >= 0 && static_cast<uint64_t>(i) < size, thing, " ", i,
            " does not exist, there are ", size);
  }

private:
  Checked(const PlanT &plan, PlanEntry entry, std::string detail)
      : plan(plan), entry(entry), detail(std::move(detail)) {}

  template <typename... Parts> static std::string text(const Parts &...parts) {
    std::ostringstream out;
    static_cast<void>((out << ... << parts));
    return out.str();
  }
  [[noreturn]] void raise(Constraint constraint, std::optional<uint32_t> other,
                          const std::string &why) const;

  const PlanT &plan;
  PlanEntry entry;
  std::string detail;
};

/// Ranges that may not overlap, each with the number of what it belongs to.
class DisjointRanges {
public:
  /// Adds [begin, end), or returns whose range it overlaps.
  std::optional<size_t> add(uint64_t begin, uint64_t end, size_t id) {
    if (begin >= end)
      return std::nullopt;
    auto next = ends.upper_bound(begin);
    if (next != ends.end() && next->second.first < end)
      return next->second.second;
    ends.emplace(end, std::make_pair(begin, id));
    return std::nullopt;
  }
  /// The sum of the ranges inside [begin, end); nothing where one is cut.
  /// `look()` is called for each.
  template <typename Fn>
  std::optional<uint64_t> inside(uint64_t begin, uint64_t end, Fn look) const {
    uint64_t sum = 0;
    for (auto it = ends.upper_bound(begin);
         it != ends.end() && it->second.first < end; ++it) {
      look();
      if (it->second.first < begin || it->first > end)
        return std::nullopt;
      sum += it->first - it->second.first;
    }
    return sum;
  }
  std::optional<uint64_t> inside(uint64_t begin, uint64_t end) const {
    return inside(begin, end, [] {});
  }

private:
  std::map<uint64_t, std::pair<uint64_t, size_t>> ends; // begin and owner
};

/// Bytes that a command uses.
class UsedBytes {
public:
  UsedBytes() = default;
  explicit UsedBytes(const Place &place) { add(place); }

  void add(const Place &place) {
    uint64_t begin = place.offset(), end = begin + place.bytes();
    if (begin == end)
      return;
    auto &ranges = arenas[place.arena()];
    auto it = ranges.upper_bound(begin);
    if (it != ranges.begin() && std::prev(it)->second >= begin)
      --it;
    while (it != ranges.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ranges.erase(it);
    }
    ranges[begin] = end;
  }
  bool has(const Place &place) const {
    auto arena = arenas.find(place.arena());
    if (arena == arenas.end() || !place.bytes())
      return false;
    auto next = arena->second.lower_bound(place.offset() + place.bytes());
    return next != arena->second.begin() &&
           std::prev(next)->second > place.offset();
  }

private:
  std::map<uint32_t, std::map<uint64_t, uint64_t>> arenas; // begin to end
};

/// What a command computes with is all on the device, or all on the host.
class OneMemory {
public:
  void add(const Checked &here, const Place &place) {
    bool isHost = place.arena() == hostArena;
    here.require(C15, onHost.value_or(isHost) == isHost,
                 "uses memory of the device and of the host");
    onHost = isHost;
  }

private:
  std::optional<bool> onHost;
};

class CheckingBudget;

/// What programs have in common.
struct PlanFacts {
  /// Where in the window arena the mapped gathers of a flat state show it.
  std::map<uint32_t, Place> windows;
  /// The elements of a flat state that its members hold.
  std::map<uint32_t, DisjointRanges> members;
};

/// A place inside its arena, aligned, and of a tensor's size. A view looks at
/// some of a place.
void checkPlace(const Checked &at, const PlanT &plan, const Place *place);
void checkTensor(const Checked &at, const std::vector<int64_t> &shape,
                 const std::vector<int64_t> &strides, DType dtype,
                 const Place &place, bool view = false);

/// Scalars that refer to earlier ones, to parameter groups that exist, and to
/// states of one number that every rank has.
void checkScalars(const Checked &at, const PlanT &plan,
                  const std::vector<std::unique_ptr<ScalarT>> &scalars);

/// A number of the step, of `scalars`, that a call is given.
void checkScalarArgument(const Checked &at, const PlanT &plan,
                         const AtenT &call, int scalar, size_t scalars);

/// What a call was measured to take, if it was.
void checkMeasuredTime(const Checked &at, const AtenT &call);

/// Arguments of a call; `value(i)` is asked about every value that is read.
template <typename Fn>
void checkArguments(const Checked &at, const PlanT &plan, const AtenT &call,
                    size_t scalars, Fn value) {
  at.require(C1, call.name.find("::") != std::string::npos, "operator '",
             call.name, "' has no namespace");
  for (const auto &argument : call.arguments) {
    at.require(C1, argument->kind <= ArgumentKind::MAX, "argument kind ",
               static_cast<int>(argument->kind), " is unknown");
    if (argument->kind == ArgumentKind::Value)
      value(argument->value);
    else if (argument->kind == ArgumentKind::ValueList)
      for (int member : argument->values)
        member == -1 ? void() : value(member);
    else if (argument->kind == ArgumentKind::Scalar)
      checkScalarArgument(at, plan, call, argument->value, scalars);
    else if (argument->kind == ArgumentKind::Double)
      at.require(C1, argument->d.has_value(), "a number has no value");
    else if (argument->kind == ArgumentKind::Complex)
      at.require(C1, argument->doubles.size() == 2,
                 "a complex argument needs two numbers");
    else if (argument->kind == ArgumentKind::DType)
      at.require(C1,
                 argument->i >= 0 &&
                     argument->i <= static_cast<int64_t>(DType::MAX),
                 "dtype ", argument->i, " is unknown");
  }
}

/// All of a plan but its programs' contents; finds the members of flat states.
void checkTables(const PlanT &plan, PlanFacts &facts);

/// Everything of one program; the rest of the plan is already checked.
void checkProgram(const Checked &at, const PlanT &plan, const ProgramT &program,
                  const PlanFacts &facts, CheckingBudget &budget);

/// What updates change in place of parameters that are in other memory; the
/// program is already checked.
void checkStaging(const Checked &at, const PlanT &plan,
                  const ProgramT &program);

/// What some ranks alone compute and copy; the program is already checked.
void checkSomeRanks(const Checked &at, const PlanT &plan,
                    const ProgramT &program, CheckingBudget &budget);

/// What becomes of gradients in a step of several micro-batches; programs are
/// already checked.
void checkMicroBatches(const PlanT &plan);

/// Whether programs and their variants differ in shapes alone; programs are
/// already checked.
void checkVariants(const PlanT &plan);

/// Whether the turns of a step are a line of programs that train apart;
/// programs and variants are already checked.
void checkTurns(const PlanT &plan);

/// Whether ranks agree on what they train; programs are already checked.
void checkAgreement(const PlanT &plan);

/// Whether programs compute what the plan says of the sequential step; all else
/// is already checked.
void checkMeanings(const PlanT &plan);

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_CHECKERSUPPORT_H

// Checks a plan once, when it is loaded, trusting nothing in it, so that the
// executor can be a plain loop that checks nothing. The compiler calls it too,
// before there is a file, and shows what is found at the op it comes from.
#ifndef FSDP_PLAN_CHECK_PLANCHECKER_H
#define FSDP_PLAN_CHECK_PLANCHECKER_H

#include "plan/PlanTypes.h"

#include <functional>

namespace fsdp::plan {

/// What the checker demands, by its number in Constraints.def.
enum Constraint : uint8_t {
#define CONSTRAINT(number, name, refused) C##number = number,
#include "plan/check/Constraints.def"
#undef CONSTRAINT
};

/// An entry of a plan, of which something can be wrong.
struct PlanEntry {
  enum Kind {
    Plan,
    MeshDim,
    Arena,
    Unit,
    State,
    Rule,
    Call, // of a rule
    Program,
    Value, // of a program, like what follows
    Input,
    Output,
    Command
  };
  Kind kind = Plan;
  size_t index = 0;
  /// The rule of a call, and the program of what is in one.
  size_t owner = 0;
};

/// "program 'step': command 3 (blocks.0)"; empty for the plan itself.
std::string describe(const PlanT &plan, const PlanEntry &entry);

/// What is wrong with a plan. what() is "C9: program 'step': command 3
/// (blocks.0): " and the reason.
struct Finding : PlanError {
  Finding(Constraint constraint, PlanEntry entry, const std::string &where,
          const std::string &reason, std::optional<uint32_t> other);

  Constraint constraint;
  PlanEntry entry;
  /// "C9: " and the reason, without the entry.
  std::string reason;
  /// The command of the same program that this one should have waited for.
  std::optional<uint32_t> other;
};

/// What is done with a finding.
using OnFinding = std::function<void(const Finding &)>;

/// Throws a Finding, the first thing wrong: an index or a place out of range,
/// shapes that do not fit their places, a command whose operands do not agree,
/// a value that is read before it is written or after its bytes were given to
/// another one. docs/checker.md lists all that is demanded.
///
/// A plan that passes has no null pointer in it: every union is set, every
/// place is there.
///
/// With `found` it goes on behind a finding, which that is given: with the next
/// program, and, where programs are sound, with the next thing that holds for
/// all of them.
void checkPlan(const PlanT &plan, const OnFinding &found = {});

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_PLANCHECKER_H

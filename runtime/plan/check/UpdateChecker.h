// Checks the updates of a program; for the checker only.
#ifndef FSDP_PLAN_CHECK_UPDATECHECKER_H
#define FSDP_PLAN_CHECK_UPDATECHECKER_H

#include "plan/check/ProgramMemory.h"
#include "plan/check/SharedNumbers.h"

#include <set>

namespace fsdp::plan {

/// Checks that updates fit their rules, parameters and states, and that each
/// element of a parameter is updated at most once. Notes what they do to the
/// program's memory.
class UpdateChecker {
public:
  UpdateChecker(const PlanT &plan, const ProgramT &program,
                const PlanFacts &facts, ProgramMemory &memory,
                SharedNumbers &numbers)
      : plan(plan), program(program), facts(facts), memory(memory),
        numbers(numbers) {}

  /// Checks the next update in the order of the program's commands.
  void check(const Checked &here, const UpdateT &update);

  /// Requires of a flat parameter that is updated that all its members are.
  void finish(const Checked &at) const;

private:
  /// An update is of all of a parameter, or of a range of a flat one that cuts
  /// no member. No element is updated twice.
  void checkRange(const Checked &here, const UpdateT &update,
                  const StateT &parameter);
  void checkGradient(const Checked &here, const UpdateT &update,
                     const StateT &parameter, OneMemory &used);
  /// The scale of an update, or the number that decides whether it is skipped.
  void checkScalar(const Checked &here, int i, OneMemory &used);
  /// The rule takes and gives as many tensors as the update has.
  void checkRule(const Checked &here, const UpdateT &update) const;
  /// The values that the rule is given of whole matrices.
  void checkAllGiven(const Checked &here, const UpdateT &update,
                     OneMemory &used);
  /// Such a value is of the parameter's shape, or a state is replaced by it.
  void checkGiven(const Checked &here, const UpdateT &update, size_t i,
                  OneMemory &used);
  /// Whether the rule gives a value as the state as it is, and computes with
  /// neither: then they need not be of the parameter's shape.
  bool isReplaced(const UpdateT &update, size_t i) const;
  /// Notes that a state, an operand of the rule, changes in place.
  void change(const Checked &here, const UpdateT &update, size_t state,
              size_t operand, OneMemory &used);
  /// Notes that a copy of the parameter changes in place. That it is a copy,
  /// checkStaging finds out.
  void changeStaged(const Checked &here, const UpdateT &update,
                    OneMemory &used);
  void changeStates(const Checked &here, const UpdateT &update,
                    const StateT &parameter, OneMemory &used);

  const PlanT &plan;
  const ProgramT &program;
  const PlanFacts &facts;
  ProgramMemory &memory;
  SharedNumbers &numbers;
  std::map<uint32_t, DisjointRanges> updates;   // by parameter
  std::map<uint32_t, uint64_t> updatedElements; // of flat states' members
  std::set<uint32_t> withoutElements;           // parameters that were updated
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_UPDATECHECKER_H

// Numbers that are one for all: norms over all ranks, and what scales updates
// or decides on them; for the checker only.
#ifndef FSDP_PLAN_CHECK_SHAREDNUMBERS_H
#define FSDP_PLAN_CHECK_SHAREDNUMBERS_H

#include "plan/check/CheckerSupport.h"

#include <set>

namespace fsdp::plan {

/// What a value says of all gradients of a rank: a sum of powers, or the
/// largest magnitude.
enum class Norm { None, Sum, Largest };

/// Follows such numbers through a program whose commands are told in the list's
/// order, each after it was checked by itself.
class SharedNumbers {
public:
  SharedNumbers(const PlanT &plan, const ProgramT &program);

  void follow(const CommandT &command);
  Norm normOf(size_t value) const { return norms[value]; }

  /// All parameters of a program are updated by the same numbers.
  void checkUpdate(const Checked &here, const UpdateT &update);

  /// A norm is of the gradients that update parameters, all of them.
  void finish(const Checked &at) const;

private:
  void follow(const AtenT &call);
  void follow(const CopyT &copy);
  /// What a value is a copy of in the end, or itself; -1 of -1.
  int originOf(int value) const;
  /// Adds a gradient that norms or updates read, but for an empty one.
  void note(std::set<int> &gradients, int value) const;

  const PlanT &plan;
  const ProgramT &program;
  std::vector<Norm> norms;
  // By what they are parts of, and where they begin in the arena.
  std::map<std::pair<int, uint64_t>, std::vector<int>> parts;
  std::vector<int> origins;   // of a whole copy, what it is one of
  std::set<int> normed, used; // gradients that norms and updates read
  std::optional<std::pair<int, int>> ofUpdates; // scale, skip
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_SHAREDNUMBERS_H

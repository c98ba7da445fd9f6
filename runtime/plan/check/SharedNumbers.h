// The numbers that all updates of a program share: the norm of the gradients,
// the factor that scales them, and the condition on which they are skipped.
// Only the checker uses this.
#ifndef FSDP_PLAN_CHECK_SHAREDNUMBERS_H
#define FSDP_PLAN_CHECK_SHAREDNUMBERS_H

#include "plan/check/CheckerSupport.h"

#include <map>
#include <optional>
#include <set>

namespace fsdp::plan {

/// What a value says of all gradients of a rank: a sum of powers, or the
/// largest magnitude; or that it says whether something holds there.
enum class Norm { None, Sum, Largest, Truth };

/// Follows such numbers through a program. `follow` gets its commands in their
/// order, each after it was checked by itself.
class SharedNumbers {
public:
  SharedNumbers(const PlanT &plan, const ProgramT &program);

  void follow(const CommandT &command);
  Norm normOf(size_t value) const { return norms[value]; }

  /// Requires the scale and the condition of the updates before it.
  void checkUpdate(const Checked &here, const UpdateT &update);

  /// Requires that a norm is taken of exactly the gradients that update
  /// parameters.
  void finish(const Checked &at) const;

private:
  void follow(const AtenT &call);
  void follow(const CopyT &copy);
  /// The first value in a chain of copies that ends with this one; -1 of -1.
  int originOf(int value) const;
  /// `copied` is a part of a copy of `whole`: the part of `whole` that lies at
  /// the same place in it, or `copied` where the program names no such part.
  int samePartOf(int whole, int copied) const;
  /// The norm that all of these values belong to, or None.
  Norm commonNorm(const std::vector<int> &values) const;
  /// Adds a gradient that norms or updates read, unless it is empty.
  void note(std::set<int> &gradients, int value) const;

  const PlanT &plan;
  const ProgramT &program;
  std::vector<Norm> norms;
  // By the value that they are parts of, and their offset in the arena.
  std::map<std::pair<int, uint64_t>, std::vector<int>> parts;
  std::vector<int> origins;   // by value: the one it copies whole, or itself
  std::set<int> normed, used; // gradients that norms and updates read
  std::optional<int> scaledBy;                // all updates
  std::map<uint32_t, int> skippedOn;          // updates by a rule
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_SHAREDNUMBERS_H

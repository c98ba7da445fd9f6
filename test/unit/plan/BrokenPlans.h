// What tests of the plan checker have in common: what it says of a plan, and a
// table of ways to break one.
#ifndef FSDP_TEST_UNIT_PLAN_BROKENPLANS_H
#define FSDP_TEST_UNIT_PLAN_BROKENPLANS_H

#include "plan/check/PlanChecker.h"

#include <functional>
#include <gtest/gtest.h>
#include <ostream>
#include <string>

namespace fsdp::test {

/// What is wrong with a plan; nothing where it is valid.
inline std::string check(const plan::PlanT &plan) {
  try {
    plan::checkPlan(plan);
    return "";
  } catch (const plan::PlanError &error) {
    return error.what();
  }
}

/// A way to break a `Plan`, the constraint that it breaks, and a part of what
/// the checker says of it.
template <typename Plan> struct Break {
  const char *name;
  plan::Constraint constraint;
  std::function<void(Plan &)> apply;
  const char *message;

  friend void PrintTo(const Break &b, std::ostream *os) { *os << b.name; }

  /// The checker refuses `broken`, and says what it should.
  void expectRefused(const plan::PlanT &broken) const {
    std::string said = check(broken);
    EXPECT_EQ(said.find("C" + std::to_string(constraint) + ": "), 0u)
        << "the checker said: " << said;
    EXPECT_NE(said.find(message), std::string::npos)
        << "the checker said: " << said;
  }
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_PLAN_BROKENPLANS_H

// Ways to break a valid plan, each a class by itself.
#ifndef FSDP_TEST_MUTATION_MUTATIONS_H
#define FSDP_TEST_MUTATION_MUTATIONS_H

#include "plan/PlanTypes.h"

#include <optional>
#include <random>
#include <string>
#include <vector>

namespace fsdp::test {

using Random = std::mt19937_64;

struct Mutation {
  const char *name;
  /// Breaks the plan somewhere and says where; nothing where it has no place
  /// for this.
  std::optional<std::string> (*apply)(plan::PlanT &plan, Random &random);
};

/// Of when a command runs and where its values lie; of which operators it calls
/// with what; of all else that a command says; of what is computed, where
/// all of these stay right; of what was captured and no pass changes; and with
/// all else changed so that it fits.
extern const std::vector<Mutation> placeMutations, operatorMutations,
    contentMutations, meaningMutations, capturedMutations, forgedMutations;

std::vector<Mutation> allMutations();

} // namespace fsdp::test

#endif // FSDP_TEST_MUTATION_MUTATIONS_H

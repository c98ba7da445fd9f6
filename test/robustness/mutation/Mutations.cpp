#include "Mutations.h"

std::vector<fsdp::test::Mutation> fsdp::test::allMutations() {
  std::vector<Mutation> all;
  for (const auto *kind :
       {&placeMutations, &operatorMutations, &contentMutations,
        &meaningMutations, &capturedMutations, &forgedMutations})
    all.insert(all.end(), kind->begin(), kind->end());
  return all;
}

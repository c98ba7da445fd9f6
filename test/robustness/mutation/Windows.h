// Ways to break what ranks see of each other's memory.
#ifndef FSDP_TEST_MUTATION_WINDOWS_H
#define FSDP_TEST_MUTATION_WINDOWS_H

#include "Sites.h"

namespace fsdp::test {

/// A program shows one more flat state, a buffer, and writes it while other
/// ranks may read it: by an operator or by a copy.
Said writeShownBuffer(plan::PlanT &plan, Random &random);

} // namespace fsdp::test

#endif // FSDP_TEST_MUTATION_WINDOWS_H

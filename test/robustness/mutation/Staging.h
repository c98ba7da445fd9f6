// Ways to break what is copied for an update, and copied back behind it.
#ifndef FSDP_TEST_MUTATION_STAGING_H
#define FSDP_TEST_MUTATION_STAGING_H

#include "Sites.h"

namespace fsdp::test {

/// The update changes another parameter's copy, or the parameter itself.
Said updateAnotherCopy(plan::PlanT &plan, Random &random);
/// The copy is one of another parameter.
Said copyAnother(plan::PlanT &plan, Random &random);
/// The copy goes back before its update.
Said copyBackEarly(plan::PlanT &plan, Random &random);

} // namespace fsdp::test

#endif // FSDP_TEST_MUTATION_STAGING_H

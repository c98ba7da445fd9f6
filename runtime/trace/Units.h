// What a plan's units hold.
#ifndef FSDP_RUNTIME_TRACE_UNITS_H
#define FSDP_RUNTIME_TRACE_UNITS_H

#include "plan/PlanTypes.h"

#include <string>
#include <vector>

namespace fsdp::trace {

struct UnitFacts {
  std::vector<uint32_t> states; // its parameters, without what is flat
  uint64_t parameters = 0, wholeBytes = 0;
  uint64_t rankBytes = 0, optimizerBytes = 0; // a rank's part
};
UnitFacts unitFacts(const plan::PlanT &plan, int unit);

/// "root" for the unit of the whole model.
std::string unitTitle(const plan::PlanT &plan, int unit);

/// The index of the unit of that title. Throws PlanError, with the titles that
/// there are.
int findUnit(const plan::PlanT &plan, const std::string &title);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_UNITS_H

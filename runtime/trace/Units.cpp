#include "trace/Units.h"

#include "plan/FormatText.h"
#include "plan/NearestName.h"

#include <algorithm>

namespace fsdp::trace {

static uint64_t bytesOf(const std::vector<int64_t> &shape, plan::DType dtype) {
  return plan::numElements(shape).value_or(0) * plan::dtypeBytes(dtype);
}

UnitFacts unitFacts(const plan::PlanT &plan, int unit) {
  UnitFacts facts;
  for (uint32_t s = 0; s < plan.states.size(); ++s) {
    const plan::StateT &state = *plan.states[s];
    if (state.is_flat)
      continue;
    uint64_t bytes = bytesOf(state.local_shape, state.dtype);
    if (state.role == plan::Role::Parameter && state.unit == unit) {
      facts.states.push_back(s);
      ++facts.parameters;
      facts.wholeBytes += bytesOf(state.shape, state.dtype);
      facts.rankBytes += bytes;
    } else if (state.role == plan::Role::Optimizer && state.parameter >= 0 &&
               plan.states[state.parameter]->unit == unit) {
      facts.optimizerBytes += bytes;
    }
  }
  return facts;
}

std::string unitTitle(const plan::PlanT &plan, int unit) {
  const std::string &name = plan.units.at(unit)->name;
  return name.empty() ? "root" : name;
}

int findUnit(const plan::PlanT &plan, const std::string &title) {
  constexpr size_t mostTitles = 12;
  std::string all;
  std::vector<std::string> titles;
  for (size_t unit = 0; unit < plan.units.size(); ++unit) {
    std::string other = unitTitle(plan, static_cast<int>(unit));
    if (other == title)
      return static_cast<int>(unit);
    titles.push_back(other);
    if (unit < mostTitles)
      appendListed(all, other);
    else if (unit == mostTitles)
      appendListed(all, "...");
  }
  throw plan::PlanError(E::Explain,
                        "there is no unit '" + title + "' to explain" +
                            nearestHint(title, titles) +
                            "; give peak, exposed, or one of " + all);
}

} // namespace fsdp::trace

#include "operators/RunnablePlan.h"

#include "operators/DispatcherSchemas.h"

namespace fsdp {

void requireOwnTorch(const plan::PlanT &plan) {
  if (!plan.torch_version.empty() && plan.torch_version != FSDP_TORCH)
    throw plan::PlanError(
        E::PlanVersion,
        "the plan is for PyTorch " + plan.torch_version +
            ", and this program runs with " FSDP_TORCH
            "; export and compile the step again with PyTorch " FSDP_TORCH);
}

plan::LoadedPlan readRunnablePlan(const std::string &path) {
  plan::LoadedPlan loaded = plan::readPlan(path, findDispatcherSchema);
  requireOwnTorch(*loaded.plan);
  return loaded;
}

} // namespace fsdp

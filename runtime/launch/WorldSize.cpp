#include "launch/WorldSize.h"

#include "Error.h"

namespace fsdp {

void checkWorldSize(const plan::PlanT &plan, int size,
                    const std::string &howToStart) {
  uint64_t mesh = plan::numRanks(plan);
  if (mesh != static_cast<uint64_t>(size))
    throw Error(E::WorldSize,
                "the plan's mesh has " + std::to_string(mesh) +
                    (mesh == 1 ? " rank" : " ranks") + ", this run " +
                    std::to_string(size) + "; " + howToStart +
                    ", or compile it for mesh=" + std::to_string(size));
}

} // namespace fsdp

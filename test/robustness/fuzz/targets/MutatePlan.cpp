// Changes plans: a valid one as test/robustness/mutation does, else some bytes.
#include "FuzzTarget.h"

#include "robustness/mutation/Mutations.h"
#include "operators/DispatcherSchemas.h"
#include "plan/PlanFile.h"

#include <cstring>

using namespace fsdp::test;
using namespace fsdp::plan;

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  static const std::vector<Mutation> mutations = allMutations();
  Random random(seed);
  if (random() % 2)
    return LLVMFuzzerMutate(data, size, maxSize);
  try {
    PlanT plan = *parsePlan({reinterpret_cast<const char *>(data), size},
                            "fuzz", fsdp::findDispatcherSchema)
                      .plan;
    mutations[random() % mutations.size()].apply(plan, random);
    std::string file = serializePlan(plan);
    if (file.size() <= maxSize) {
      std::memcpy(data, file.data(), file.size());
      return file.size();
    }
  } catch (const PlanError &) {
    // The mutations of valid plans are for these alone.
  }
  return LLVMFuzzerMutate(data, size, maxSize);
}

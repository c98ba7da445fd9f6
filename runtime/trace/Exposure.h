// Why communication keeps a program's compute stream, and what would change it.
#ifndef FSDP_RUNTIME_TRACE_EXPOSURE_H
#define FSDP_RUNTIME_TRACE_EXPOSURE_H

#include "trace/CommandTexts.h"
#include "trace/Predict.h"

#include <string>
#include <vector>

namespace fsdp::trace {

enum class Cause {
  OnCompute, // it runs on the compute stream
  Late,      // it starts later than its data is there and its stream is free
  Queued,    // its stream still carries other communication
  Uncovered  // too little is computed between its data and its use
};
constexpr const char *causeNames[] = {"on the compute stream", "starts late",
                                      "queued", "nothing to hide it"};

/// Something that would make a program faster: by how much is predicted by
/// following the program again with that change.
struct Remedy {
  std::string what;     // "keep 'blocks.0' gathered (…)"
  double seconds = 0;   // that the program is shorter
  uint64_t bytes = 0;   // that a rank's device memory holds more
  bool changes = false; // the numbers that are computed
};

/// One command's share of a program's exposed communication.
struct Exposure {
  uint32_t command = 0; // the collective, or the copy from or to the host
  double seconds = 0;   // that it keeps the compute stream
  Cause cause = Cause::Uncovered;
  std::string why;              // with the figures
  std::vector<Remedy> remedies; // best first; each saves something
};

/// The shares of each command, the largest first. They add up to the exposed
/// time of `predict`. The plan must have been checked.
std::vector<Exposure> exposures(const plan::PlanT &plan,
                                const plan::ProgramT &program,
                                const CommandTexts &texts,
                                const cost::Cluster &cluster);

/// What the program would gain from another machine, best first: bounds for
/// whatever one changes in the plan.
std::vector<Remedy> machineBounds(const plan::PlanT &plan,
                                  const plan::ProgramT &program,
                                  const cost::Cluster &cluster);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_EXPOSURE_H

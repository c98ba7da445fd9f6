#ifndef FSDP_RUNTIME_EXECUTOR_GRAPHCAPTURE_H
#define FSDP_RUNTIME_EXECUTOR_GRAPHCAPTURE_H

#include "executor/LoadedProgram.h"

#include <functional>
#include <string>

namespace fsdp {

/// Makes graphs of a device's programs.
class GraphCapture {
public:
  /// All outlive it. `numbers`: null where the host is the device.
  GraphCapture(const plan::PlanT &plan, Backend &backend, Processor &device,
               StepNumbers *numbers)
      : plan(plan), backend(backend), device(device), numbers(numbers) {}

  /// What `launch` launches does not run but becomes the program's graph, on
  /// all ranks or on none. Returns what kept it from that; empty: nothing.
  /// Throws PeerFailure when a rank is gone.
  std::string capture(LoadedProgram &program,
                      const std::function<void()> &launch);

private:
  std::string whyNot(const LoadedProgram &program) const;
  std::string record(LoadedProgram &program,
                     const std::function<void()> &launch);

  const plan::PlanT &plan;
  Backend &backend;
  Processor &device;
  StepNumbers *numbers;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_GRAPHCAPTURE_H

#ifndef FSDP_RUNTIME_EXECUTOR_PROGRAMTRAFFIC_H
#define FSDP_RUNTIME_EXECUTOR_PROGRAMTRAFFIC_H

#include "executor/LoadedProgram.h"
#include "executor/Staging.h"

#include <array>
#include <map>
#include <utility>
#include <vector>

namespace fsdp {

/// What goes between programs and the host: inputs there, scalar outputs back.
/// Where the device has memory of its own both are copies on stream 0, and the
/// host waits for none of them before it needs to.
class ProgramTraffic {
public:
  /// Both outlive it.
  ProgramTraffic(Backend &backend, Streams &streams)
      : backend(backend), streams(streams) {}

  /// Gives an input its value, from row-major memory, which is read before it
  /// returns.
  void setInput(LoadedProgram &program, size_t input, const void *rowMajor);
  /// Likewise from memory of the device, which is read on stream 0.
  void setInputFromDevice(LoadedProgram &program, size_t input,
                          const void *rowMajor);
  /// Where it is written in place of that; null where it cannot be.
  char *inputMemory(const LoadedProgram &program, size_t input) const;

  /// After a run of the program: its numbers begin their way to the host.
  void fetchOutputs(const LoadedProgram &program);

  /// The numbers of the last run (0), or of the one before it (1), when they
  /// are there.
  std::vector<double> outputs(unsigned runsAgo);
  /// Row-major copies of the outputs that are no numbers, of the program that
  /// ran last.
  std::vector<at::Tensor> tensorOutputs(const LoadedProgram &program);

private:
  struct Outputs {
    Staging staging;
    std::vector<at::ScalarType> types;
  };

  Backend &backend;
  Streams &streams;
  std::map<std::pair<const LoadedProgram *, size_t>, Staging> inputs;
  std::array<Outputs, 2> runs;
  Staging tensors; // of the last run
  uint64_t numRuns = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_PROGRAMTRAFFIC_H

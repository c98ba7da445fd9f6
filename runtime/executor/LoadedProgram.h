#ifndef FSDP_RUNTIME_EXECUTOR_LOADEDPROGRAM_H
#define FSDP_RUNTIME_EXECUTOR_LOADEDPROGRAM_H

#include "executor/Arenas.h"
#include "executor/Counters.h"
#include "executor/OperatorCall.h"
#include "executor/Poison.h"
#include "executor/Processor.h"
#include "executor/Streams.h"

#include <cstdint>
#include <memory>
#include <vector>

namespace fsdp {

/// What a program is loaded with, and shares with the others.
struct LoadContext {
  const plan::PlanT &plan;
  const Arenas &arenas;
  const std::vector<at::Tensor> &states; // undefined: has no memory of its own
  Processor &device, &host; // the same where the host is the device
  StepNumbers *numbers;     // null where the host is the device
  int rank;
};

/// A program of the plan with all addresses, tensors, operators and counters
/// looked up: running it is one walk along `steps`.
struct LoadedProgram {
  /// Throws Error when the plan does not fit PyTorch or itself.
  LoadedProgram(const plan::ProgramT &program, const LoadContext &context);

  struct Update {
    bool onHost; // though the program runs on a device with its own memory
    Processor *processor;
    UpdateRule *rule;
    std::vector<at::Tensor> operands;
    std::vector<ElementRange> leftover; // see UpdateRule
    at::Tensor scale, skip;             // undefined: none
    OperatorMemory memory, normMemory;
    bool inNorm;         // this rank counts its gradient
    size_t unit;         // of the parameter; as many as the plan has: none
    size_t together = 1; // it and those behind it that one launch updates
  };
  struct Copy {
    std::vector<CopyPiece> pieces;
    uint64_t bucketBytes = 0;  // into or out of what a collective moves
    uint64_t offloadBytes = 0; // between the device's memory and the host's
  };
  struct Collective {
    Transfer transfer;
    std::string kind, region;
    std::string name;            // "all-gather of blocks.0 (forward)"
    Counters::Collective *count; // null before the first run
  };
  struct Step {
    plan::Operation kind = plan::Operation::NONE;
    unsigned stream = 0;
    size_t index = 0;     // into what follows; of records and waits: the event
    bool isCasts = false; // a call's: the index is into `casts`
  };

  /// Counts a run; what never runs is not counted.
  void countRun(Counters &counters);
  /// What of the program keeps it from being replayed as a graph; empty:
  /// nothing.
  std::string whyNotCaptured() const;

  const plan::ProgramT *plan;
  std::vector<at::Tensor> tensors; // by value
  // By command; those that do nothing, and updates and casts that an earlier
  // one's launch includes, are NONE.
  std::vector<Step> steps;
  std::vector<OperatorCall> calls;
  std::vector<Casts> casts;
  std::vector<Update> updates;
  std::vector<Copy> copies;
  std::vector<Collective> collectives;
  StepNumbers::List *numbers;         // of its scalars; see LoadContext
  std::unique_ptr<DeviceGraph> graph; // once it is captured
  bool decided = false;               // whether it can be
  uint64_t runs = 0;
  std::unique_ptr<Poison> poison;

private:
  /// By value: whether a collective sends or receives it.
  std::vector<bool> buckets;
  uint32_t shard; // this rank's
  void groupUpdates();
  void groupCasts();
  void load(const plan::AtenT &aten, size_t command, const LoadContext &);
  void load(const plan::UpdateT &update, const LoadContext &);
  void load(const plan::CopyT &copy, const LoadContext &);
  void load(const plan::CollectiveT &collective, const std::string &where,
            const LoadContext &);
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_LOADEDPROGRAM_H

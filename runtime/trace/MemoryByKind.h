// What an arena's bytes are used for while a program runs.
#ifndef FSDP_RUNTIME_TRACE_MEMORYBYKIND_H
#define FSDP_RUNTIME_TRACE_MEMORYBYKIND_H

#include "plan/PlanTypes.h"

#include <array>
#include <vector>

namespace fsdp::trace {

enum class MemoryKind {
  Parameters,  // this rank's parts
  Optimizer,   // state of the optimizer, this rank's parts
  Buffers,     // and constants
  Accumulated, // gradients of the micro-batches so far
  Gathered,    // what gathers read and give, and parameters made of it
  Gradients,   // what reductions and updates take and give
  Inputs,
  Activations, // computed in forward, and used after the loss
  Temporaries, // all other results
  Padding      // between states
};
constexpr size_t numMemoryKinds = 10;
constexpr const char *memoryKindNames[numMemoryKinds] = {
    "parameters",  "optimizer", "buffers", "accumulated gradients",
    "gathered",    "gradients", "inputs",  "activations",
    "temporaries", "padding"};

/// Bytes by kind.
using MemoryUse = std::array<uint64_t, numMemoryKinds>;
uint64_t totalOf(const MemoryUse &use);

/// The kind of a state.
MemoryKind kindOf(plan::Role role);

/// The kind of each value that has bytes of its own; of others that of whose
/// bytes they are, or of their state.
std::vector<MemoryKind> kindsOf(const plan::PlanT &plan,
                                const plan::ProgramT &program);

/// The bytes in use in an arena while each command runs, in the order of the
/// list; first, what is in use before the first one. The largest total is
/// plan::liveBytes(). The plan must have been checked.
std::vector<MemoryUse> memoryByKind(const plan::PlanT &plan,
                                    const plan::ProgramT &program,
                                    uint32_t arena);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_MEMORYBYKIND_H

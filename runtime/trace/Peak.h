// What an arena holds when a program uses most of it.
#ifndef FSDP_RUNTIME_TRACE_PEAK_H
#define FSDP_RUNTIME_TRACE_PEAK_H

#include "trace/CommandTexts.h"
#include "trace/MemoryByKind.h"
#include "trace/ProgramRun.h"

#include <string>
#include <vector>

namespace fsdp::trace {

/// A state, or a value of the program, that is alive.
struct LiveTensor {
  MemoryKind kind;
  uint64_t bytes = 0;       // with what rounds them up to the alignment
  std::string name;         // of the state or input, else of what gives it
  std::string type;         // "float32 [32, 64]", a rank's part
  std::string module;       // "blocks.0.attn", or empty
  std::string source;       // "gpt.py:31", or empty
  uint32_t from = nothing;  // the first command that uses it; nothing: it is
                            // there from the start
  uint32_t until = nothing; // the last one; nothing: it is there at the end
};

struct Peak {
  uint32_t command = nothing; // while it runs; nothing: before the first one
  uint64_t bytes = 0;         // the plan's live bytes
  MemoryUse use = {};         // the same by kind
  std::vector<LiveTensor> tensors; // the largest first; with the padding
                                   // between states they are all `bytes`
};

/// The first moment with the most bytes. The plan must have been checked.
Peak peakOf(const plan::PlanT &plan, const plan::ProgramT &program,
            const CommandTexts &texts, uint32_t arena);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_PEAK_H

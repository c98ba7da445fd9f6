// How a program ends that may have loaded PyTorch.

#ifndef FSDP_TOOLS_ENDPROGRAM_H
#define FSDP_TOOLS_ENDPROGRAM_H

#include <cstdio>
#include <cstdlib>
#include <iostream>

namespace fsdp {

/// Ends the process with all that was printed, and without destructors of
/// static objects: PyTorch's tables of operators take a tenth of a second.
/// What a profiler has to do at the end, at_quick_exit does.
[[noreturn]] inline void endProgram(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  std::quick_exit(status);
}

} // namespace fsdp

#endif // FSDP_TOOLS_ENDPROGRAM_H

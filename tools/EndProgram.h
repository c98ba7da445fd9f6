// How a program ends that may have loaded PyTorch.

#ifndef FSDP_TOOLS_ENDPROGRAM_H
#define FSDP_TOOLS_ENDPROGRAM_H

#include "Error.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>

namespace fsdp {

/// Ends the process with all that was printed, and without destructors of
/// static objects: PyTorch's tables of operators take a tenth of a second.
/// What a profiler has to do at the end, at_quick_exit does.
[[noreturn]] inline void endProgram(int status) {
  std::cout.flush();
  std::fflush(nullptr);
  std::quick_exit(status);
}

/// Ends a program that has printed what it was asked for. It fails, with an
/// error, where that could not be written.
[[noreturn]] inline void endPrinted(int status) {
  errno = 0;
  std::cout.flush();
  if (std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout) {
    std::string why = errno ? std::strerror(errno) : "part of it is lost";
    std::cerr << "error: "
              << withIdentifier("cannot write stdout: " + why,
                                E::FileUnwritable)
              << "\n";
    status = 1;
  }
  endProgram(status);
}

} // namespace fsdp

#endif // FSDP_TOOLS_ENDPROGRAM_H

#ifndef FSDP_TOOLS_COLOURS_H
#define FSDP_TOOLS_COLOURS_H

#include "llvm/Support/WithColor.h"

#include <cstdlib>

namespace fsdp {

/// Has LLVM print no colours where NO_COLOR is set to anything, as
/// no-color.org asks of programs; LLVM looks at the terminal alone.
inline void honourNoColour() {
  const char *value = std::getenv("NO_COLOR");
  if (value && *value)
    llvm::WithColor::setAutoDetectFunction(
        [](const llvm::raw_ostream &) { return false; });
}

} // namespace fsdp

#endif // FSDP_TOOLS_COLOURS_H

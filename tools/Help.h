#ifndef FSDP_TOOLS_HELP_H
#define FSDP_TOOLS_HELP_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace fsdp {

/// `--help` prints `screen`: what one needs of a program that has hundreds of
/// LLVM's flags. `--help-all` becomes LLVM's own help. True where nothing is
/// left to do.
inline bool printedHelp(llvm::MutableArrayRef<char *> arguments,
                        llvm::StringRef screen) {
  static char all[] = "--help";
  for (char *&argument : arguments.drop_front()) {
    llvm::StringRef text = argument;
    if (text == "--help" || text == "-help" || text == "-h") {
      llvm::outs() << screen;
      return true;
    }
    if (text == "--help-all")
      argument = all;
  }
  return false;
}

} // namespace fsdp

#endif // FSDP_TOOLS_HELP_H

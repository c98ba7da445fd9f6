// The files that a tool of MLIR's is given: LLVM would open a FIFO or a device,
// wait there without end, and say in words of its own what it cannot open.
#ifndef FSDP_TOOLS_CHECKFILES_H
#define FSDP_TOOLS_CHECKFILES_H

#include "fsdp/Dialect/Diagnostics.h"
#include "plan/Files.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace fsdp {

/// Fails, with an error, where an input is anything but a regular file or `-`.
inline mlir::LogicalResult checkInput(llvm::StringRef path) {
  if (path == "-")
    return mlir::success();
  try {
    close(openRegularFile(path.str()).descriptor);
    return mlir::success();
  } catch (const Error &error) {
    printError(Error(error.kind, std::string(error.what()) +
                                     "; name a regular file, or - for stdin"));
    return mlir::failure();
  }
}

inline void printUnwritable(llvm::StringRef path, llvm::StringRef why) {
  printError(Error(E::FileUnwritable,
                   ("cannot write '" + path + "': " + why +
                    "; name a file in a folder that is there and has room")
                       .str()));
}

/// Fails, with an error, where an output cannot be opened, or is one of the
/// inputs, which LLVM empties before it has read them; and has LLVM's error,
/// where a disk is full, said as this project says it.
inline mlir::LogicalResult checkOutput(llvm::StringRef path,
                                       llvm::ArrayRef<std::string> inputs) {
  static std::string output; // LLVM writes it when the program ends
  output = path == "-" ? "stdout" : path.str();
  llvm::install_fatal_error_handler([](void *, const char *text, bool) {
    llvm::StringRef why = text;
    if (why.consume_front("IO failure on output stream: "))
      printUnwritable(output, why);
    else
      llvm::errs() << "LLVM ERROR: " << why << "\n";
  });
  if (path == "-")
    return mlir::success();
  llvm::StringRef folder = llvm::sys::path::parent_path(path);
  bool isThere = llvm::sys::fs::exists(path);
  std::string written = isThere          ? path.str()
                        : folder.empty() ? "."
                                         : folder.str();
  if (llvm::sys::fs::is_directory(path))
    printUnwritable(path, "it is a folder");
  else if (llvm::sys::fs::is_regular_file(path) &&
           llvm::any_of(inputs, [&](const std::string &input) {
             return llvm::sys::fs::equivalent(path, input);
           }))
    printError(Error(
        E::FileUnwritable,
        ("cannot write '" + path + "': it is what is read; name another file")
            .str()));
  else if (access(written.c_str(), isThere ? W_OK : W_OK | X_OK) != 0)
    printUnwritable(path, std::strerror(errno));
  else
    return mlir::success();
  return mlir::failure();
}

} // namespace fsdp

#endif // FSDP_TOOLS_CHECKFILES_H

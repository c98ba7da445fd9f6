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

/// Has LLVM's error, where a disk is full, said as this project says it, of
/// this output: LLVM writes it when the program ends.
inline void identifyFullDisk(llvm::StringRef path = "-") {
  static std::string output;
  output = path == "-" ? "stdout" : path.str();
  llvm::remove_fatal_error_handler();
  llvm::install_fatal_error_handler([](void *, const char *text, bool) {
    llvm::StringRef why = text;
    if (why.consume_front("IO failure on output stream: "))
      printUnwritable(output, why);
    else
      llvm::errs() << "LLVM ERROR: " << why << "\n";
  });
}

/// Opens a FIFO that LLVM is to write, which would wait for its reader. It
/// stays open, so that the reader sees no end before LLVM has opened it.
inline mlir::LogicalResult checkReader(llvm::StringRef path) {
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status) ||
      status.type() != llvm::sys::fs::file_type::fifo_file ||
      openToWrite(path.str(), 0) >= 0)
    return mlir::success();
  printError(Error(E::FileUnwritable,
                   "cannot write '" + path.str() + "': " + reasonOfOpening()));
  return mlir::failure();
}

/// Fails, with an error, where an output cannot be opened, or is one of the
/// inputs, which LLVM empties before it has read them.
inline mlir::LogicalResult checkOutput(llvm::StringRef path,
                                       llvm::ArrayRef<std::string> inputs) {
  identifyFullDisk(path);
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
    return checkReader(path);
  return mlir::failure();
}

} // namespace fsdp

#endif // FSDP_TOOLS_CHECKFILES_H

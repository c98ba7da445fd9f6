// Files that a stranger may have made, or may be waiting for.
#ifndef FSDP_PLAN_FILES_H
#define FSDP_PLAN_FILES_H

#include "Error.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace fsdp {

struct OpenedFile {
  int descriptor;
  uint64_t bytes; // when it was opened
};

/// Opens a regular file to read it; the caller closes it. Throws Error, at
/// once, where it is anything else: a FIFO waits for its writer, and a device
/// may have no end.
OpenedFile openRegularFile(const std::string &path);

/// The contents of a regular file. Throws Error where it is no such file or
/// has more than `most` bytes; nothing is allocated before that is known.
std::string readRegularFile(const std::string &path, uint64_t most);

/// Makes a file and opens it to write; the caller closes it. Throws Error where
/// something has that name already, a link too: nobody can lead the writer to
/// another file.
int makeFile(const std::string &path);

/// Opens a file to write to it, as open(2) does, and without
/// waiting for the reader of a FIFO. Less than 0: reasonOfOpening() says why.
int openToWrite(const std::string &path, int flags);
std::string reasonOfOpening();

/// The descriptor of this process that a path leads to, as /dev/stdout does,
/// also where that is a file. Renaming would replace the link itself, for all
/// who use it.
std::optional<int> descriptorAt(const std::string &path);

/// A file that is to be written later, and could be now: its constructor throws
/// Error where it could not. A pipe stays open as long as this, since its
/// reader would see its end.
class WritablePlace {
public:
  explicit WritablePlace(const std::string &path);
  WritablePlace(WritablePlace &&from)
      : pipe(std::exchange(from.pipe, std::nullopt)) {}
  ~WritablePlace();

private:
  std::optional<int> pipe;
};

/// What a file must survive.
enum class Durability {
  Process, // the end of this process
  Machine  // that of the machine: its bytes are on the disk before its name is
};

/// Writes any bytes under another name, which is then moved: another reader
/// sees the old file or the new one, and an error leaves no file. Throws Error.
void writeFileAtomically(const std::string &bytes, const std::string &path,
                         Durability durability = Durability::Process);

/// The deepest nesting of brackets in JSON or code: those in quotes do not
/// count. What parses text this way needs no more memory or stack than that.
struct Nesting {
  uint64_t depth = 0;
  uint64_t members = 0; // at most: commas and brackets
};
Nesting nestingOf(const std::string &text);

} // namespace fsdp

#endif // FSDP_PLAN_FILES_H

#include "plan/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp {

static std::string problem() { return std::strerror(errno); }

OpenedFile openRegularFile(const std::string &path) {
  // Without waiting for the writer of a FIFO.
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (file < 0)
    throw Error(E::FileUnreadable, "cannot open '" + path + "': " + problem());
  struct stat status;
  bool isKnown = fstat(file, &status) == 0;
  if (isKnown && S_ISREG(status.st_mode))
    return {file, static_cast<uint64_t>(status.st_size)};
  std::string why = !isKnown                  ? problem()
                    : S_ISDIR(status.st_mode) ? "it is a folder"
                                              : "it is not a regular file";
  close(file);
  throw Error(E::FileUnreadable, "cannot read '" + path + "': " + why);
}

std::string readRegularFile(const std::string &path, uint64_t most) {
  auto [file, bytes] = openRegularFile(path);
  std::string contents, why;
  if (bytes > most)
    why = "its " + std::to_string(bytes) + " bytes are more than " +
          std::to_string(most);
  else
    contents.resize(bytes);
  for (size_t at = 0; why.empty() && at < contents.size();) {
    ssize_t n = read(file, contents.data() + at, contents.size() - at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      why = n ? problem() : "it became shorter";
    at += std::max<ssize_t>(n, 0);
  }
  close(file);
  if (!why.empty())
    throw Error(E::FileUnreadable, "cannot read '" + path + "': " + why);
  return contents;
}

static int openNew(const std::string &path) {
  return open(path.c_str(),
              O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
}

int makeFile(const std::string &path) {
  int file = openNew(path);
  if (file < 0)
    throw Error(E::FileUnwritable, "cannot write '" + path + "': " + problem());
  return file;
}

int openToWrite(const std::string &path, int flags) {
  int file = open(path.c_str(),
                  flags | O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK, 0666);
  if (file >= 0) // what is written later waits as it should
    fcntl(file, F_SETFL, fcntl(file, F_GETFL) & ~O_NONBLOCK);
  return file;
}

std::string reasonOfOpening() {
  return errno == ENXIO
             ? "nobody reads from this pipe; start what reads it first"
             : problem();
}

/// Whether all bytes are in the file; else errno says why not.
static bool writeAll(int file, const std::string &bytes) {
  for (size_t at = 0; at < bytes.size();) {
    ssize_t n = write(file, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      return false;
    at += n;
  }
  return true;
}

/// Whether something is there that is no regular file, such as a device or a
/// pipe: renaming would put a file in its place.
static bool isNoFile(const std::string &path) {
  struct stat status;
  return stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) &&
         !S_ISDIR(status.st_mode);
}

std::optional<int> descriptorAt(const std::string &path) {
  namespace fs = std::filesystem;
  std::error_code error;
  fs::path own = fs::canonical("/proc/self/fd", error), next = path;
  for (int links = 0; !error && links < 40; ++links) { // as the kernel follows
    fs::path folder = fs::absolute(next, error).parent_path();
    if (!error)
      next = fs::canonical(folder, error) / next.filename();
    if (error)
      break;
    if (next.parent_path() == own)
      return std::atoi(next.filename().c_str());
    fs::path target = fs::read_symlink(next, error);
    if (!error)
      next = next.parent_path() / target;
  }
  return std::nullopt;
}

/// The name under which a file is written before it has its own. A process of
/// this number may have died and left one.
static std::string temporaryOf(const std::string &path) {
  std::string temporary = path + ".tmp" + std::to_string(getpid());
  unlink(temporary.c_str());
  return temporary;
}

WritablePlace::WritablePlace(const std::string &path) {
  auto refuse = [&](const std::string &why) {
    throw Error(E::FileUnwritable, "cannot write " + path + ": " + why);
  };
  if (std::optional<int> descriptor = descriptorAt(path)) {
    int flags = fcntl(*descriptor, F_GETFL);
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY)
      refuse(flags < 0 ? problem() : "it is open to be read");
    return;
  }
  if (isNoFile(path)) {
    pipe = openToWrite(path, 0);
    if (*pipe < 0)
      refuse(reasonOfOpening());
    return;
  }
  std::string temporary = temporaryOf(path);
  int file = openNew(temporary);
  if (file < 0)
    refuse(problem() + "; name a file in a folder that is there, and can be "
                       "written to");
  close(file);
  unlink(temporary.c_str());
}

WritablePlace::~WritablePlace() {
  if (pipe)
    close(*pipe);
}

static void writeInPlace(const std::string &bytes, const std::string &path) {
  int file = openToWrite(path, 0);
  if (file < 0)
    throw Error(E::FileUnwritable,
                "cannot write '" + path + "': " + reasonOfOpening());
  bool written = writeAll(file, bytes);
  std::string reason = problem();
  close(file);
  if (!written)
    throw Error(E::FileUnwritable, "cannot write '" + path + "': " + reason);
}

void writeFileAtomically(const std::string &bytes, const std::string &path,
                         Durability durability) {
  if (std::optional<int> descriptor = descriptorAt(path)) {
    if (!writeAll(*descriptor, bytes))
      throw Error(E::FileUnwritable,
                  "cannot write '" + path + "': " + problem());
    return;
  }
  if (isNoFile(path))
    return writeInPlace(bytes, path);
  std::string temporary = temporaryOf(path);
  int file = makeFile(temporary);
  bool written = writeAll(file, bytes) &&
                 (durability == Durability::Process || fsync(file) == 0);
  std::string reason = problem();
  if (close(file) != 0 && written) {
    written = false;
    reason = problem();
  }
  if (written && std::rename(temporary.c_str(), path.c_str()) != 0) {
    written = false;
    reason = problem();
  }
  if (!written) {
    unlink(temporary.c_str());
    throw Error(E::FileUnwritable, "cannot write '" + path + "': " + reason);
  }
}

Nesting nestingOf(const std::string &text) {
  Nesting nesting;
  uint64_t open = 0;
  char quote = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (quote) {
      i += c == '\\';
      quote = c == quote ? 0 : quote;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '[' || c == '{' || c == '(') {
      nesting.depth = std::max(nesting.depth, ++open);
      ++nesting.members;
    } else if (c == ']' || c == '}' || c == ')') {
      open -= open > 0;
    } else if (c == ',') {
      ++nesting.members;
    }
  }
  return nesting;
}

} // namespace fsdp

#include "state/CheckpointFolder.h"

#include "Error.h"
#include "comm/HostProcess.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp::checkpoint {

namespace fs = std::filesystem;

static const std::string partialSuffix = ".partial";
static const std::string stepPrefix = "step-";

static Error cannot(const std::string &what, const std::string &path) {
  return Error(E::FileUnwritable,
               "cannot " + what + " " + path + ": " + std::strerror(errno));
}

std::string shardName(int rank) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank-%05d.safetensors", rank);
  return name;
}

std::string loaderName(int rank) {
  char name[32];
  std::snprintf(name, sizeof(name), "rank-%05d.loader", rank);
  return name;
}

int64_t stepOfName(const std::string &name) {
  if (name.compare(0, stepPrefix.size(), stepPrefix) != 0)
    return -1;
  std::string digits = name.substr(stepPrefix.size());
  if (digits.size() < 8 || digits.size() > 18 ||
      digits.find_first_not_of("0123456789") != std::string::npos)
    return -1;
  return std::stoll(digits);
}

std::string Folder::pathOf(uint64_t step) const {
  char name[32];
  std::snprintf(name, sizeof(name), "%08llu",
                static_cast<unsigned long long>(step));
  return root + "/" + stepPrefix + name;
}

std::string Folder::partialPathOf(uint64_t step) const {
  return pathOf(step) + partialSuffix;
}

std::vector<uint64_t> Folder::steps() const {
  std::vector<uint64_t> steps;
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(root, ignored)) {
    int64_t step = stepOfName(entry.path().filename().string());
    if (step >= 0 && entry.is_directory(ignored))
      steps.push_back(step);
  }
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

void Folder::lock() {
  std::error_code error;
  fs::create_directories(root, error);
  if (error)
    throw Error(E::FileUnwritable, "cannot make the folder " + root + ": " +
                                       error.message() +
                                       "; name a folder that can be written");
  std::string path = root + "/lock";
  if (lockFile >= 0)
    close(lockFile); // of a file that nobody sees any more
  lockFile =
      open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (lockFile < 0)
    throw cannot("write", path);
  char who[256] = {};
  if (flock(lockFile, LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK)
      throw cannot("lock", path);
    ssize_t n = pread(lockFile, who, sizeof(who) - 1, 0);
    throw Error(E::CheckpointFolder,
                "another run writes its checkpoints into " + root +
                    (n > 0 ? std::string(" (") + who + ")" : "") +
                    "; wait for its end, or name another folder");
  }
  int length = std::snprintf(who, sizeof(who), "process %d on %.100s",
                             static_cast<int>(getpid()), hostName().c_str());
  // Only words for people: that it could not be written harms nothing.
  if (ftruncate(lockFile, 0) == 0 && pwrite(lockFile, who, length, 0) < 0)
    return;
}

bool Folder::isLocked() const {
  struct stat ours, there;
  return lockFile >= 0 && fstat(lockFile, &ours) == 0 &&
         stat((root + "/lock").c_str(), &there) == 0 &&
         ours.st_dev == there.st_dev && ours.st_ino == there.st_ino;
}

Folder::~Folder() {
  if (lockFile >= 0)
    close(lockFile);
}

void Folder::removePartial() const {
  std::error_code ignored;
  for (const auto &entry : fs::directory_iterator(root, ignored)) {
    std::string name = entry.path().filename().string();
    bool ends = name.size() > partialSuffix.size() &&
                name.compare(name.size() - partialSuffix.size(),
                             std::string::npos, partialSuffix) == 0;
    if (ends && stepOfName(name.substr(0, name.find('.'))) >= 0)
      fs::remove_all(entry.path(), ignored);
  }
}

void Folder::commit(uint64_t step) const {
  std::string from = partialPathOf(step), to = pathOf(step);
  syncFolder(from);
  // A folder cannot replace one that is not empty: they change places.
  bool replaces = fs::exists(to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(),
                replaces ? RENAME_EXCHANGE : 0) != 0)
    throw cannot("rename", from);
  syncFolder(root);
  std::error_code ignored;
  if (replaces)
    fs::remove_all(from, ignored);
}

void Folder::remove(uint64_t step) const {
  std::string away = pathOf(step) + ".removed" + partialSuffix;
  std::error_code ignored;
  fs::remove_all(away, ignored);
  if (rename(pathOf(step).c_str(), away.c_str()) != 0)
    throw cannot("remove", pathOf(step));
  fs::remove_all(away, ignored);
}

void syncFolder(const std::string &path) {
  int folder = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    throw cannot("open", path);
  int result = fsync(folder);
  int reason = errno;
  close(folder);
  // Some file systems have nothing to bring.
  if (result != 0 && reason != EINVAL && reason != ENOTSUP) {
    errno = reason;
    throw cannot("write", path);
  }
}

} // namespace fsdp::checkpoint

#include "train/OutputFiles.h"

#include "Error.h"
#include "plan/Files.h"
#include "state/SaveWeights.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace fsdp {

static void checkWritable(const std::string &file) {
  if (file.empty())
    return;
  std::filesystem::path path(file);
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored))
    throw Error(E::FileUnwritable,
                "cannot write " + file + ": it is a folder; name a file");
  std::string folder =
      path.has_parent_path() ? path.parent_path().string() : ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw Error(E::FileUnwritable,
                "cannot write " + file + ": " + std::strerror(errno) +
                    "; name a file in a folder that is there");
}

/// Of tensors, which are written in any order and then renamed.
static void checkRegular(const std::string &file) {
  std::error_code ignored;
  if (descriptorAt(file) || (std::filesystem::exists(file, ignored) &&
                             !std::filesystem::is_regular_file(file, ignored)))
    throw Error(E::FileUnwritable,
                "cannot write " + file +
                    ": it is no regular file; name another one");
}

void checkOutputs(const plan::PlanT &plan, const RunOptions &options) {
  for (const std::string &file :
       {options.save, options.summary, options.metrics, options.trace,
        options.evalOutputs})
    checkWritable(file);
  for (const std::string &file : {options.save, options.evalOutputs})
    checkRegular(file);
  if (options.save.empty())
    return;
  requireRoom("the file of trained weights", savedBytes(plan),
              std::filesystem::absolute(options.save).parent_path().string());
}

void requireRoom(const std::string &what, uint64_t bytes,
                 const std::string &folder) {
  std::error_code unknown;
  uint64_t free = std::filesystem::space(folder, unknown).available;
  if (!unknown && free < bytes)
    throw Error(E::FileUnwritable,
                what + " takes " + std::to_string(bytes) +
                    " bytes, and the disk of " + folder + " has " +
                    std::to_string(free) +
                    " left; make room, or name another folder");
}

} // namespace fsdp

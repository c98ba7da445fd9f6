#include "train/OutputFiles.h"

#include "Error.h"
#include "state/SaveWeights.h"

#include <filesystem>

namespace fsdp {

static WritablePlace findPlace(const std::string &file) {
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored))
    throw Error(E::FileUnwritable,
                "cannot write " + file + ": it is a folder; name a file");
  return WritablePlace(file);
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

std::vector<WritablePlace> checkOutputs(const plan::PlanT &plan,
                                        const RunOptions &options) {
  std::vector<WritablePlace> places;
  for (const std::string &file :
       {options.save, options.summary, options.metrics, options.trace,
        options.evalOutputs})
    if (!file.empty())
      places.push_back(findPlace(file));
  for (const std::string &file : {options.save, options.evalOutputs})
    checkRegular(file);
  if (!options.save.empty())
    requireRoom("the file of trained weights", savedBytes(plan),
                std::filesystem::absolute(options.save).parent_path().string());
  return places;
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

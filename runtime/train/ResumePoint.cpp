#include "train/ResumePoint.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "comm/Gather.h"
#include "state/CheckpointFolder.h"
#include "state/CheckpointReader.h"
#include "state/LoadCheckpoint.h"
#include "train/FirstProblem.h"

#include <filesystem>
#include <sstream>

namespace fsdp {

static bool isThere(const std::string &path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// The checkpoints that the options name, newest first. `named`: it is the
/// path of one.
static std::vector<std::string> candidates(const CheckpointOptions &options,
                                           bool &named) {
  bool isAuto = options.resume == "auto";
  const std::string &root = isAuto ? options.folder : options.resume;
  std::error_code ignored;
  auto isCheckpoint = [&](const std::string &path) {
    return std::filesystem::exists(path + "/" + checkpoint::manifestName,
                                   ignored);
  };
  named = true;
  if (isCheckpoint(root))
    return {root};
  // A file of one stands for it.
  std::filesystem::path path = root;
  if (std::filesystem::is_regular_file(path, ignored) &&
      isCheckpoint(path.parent_path()))
    return {path.parent_path()};
  named = false;
  checkpoint::Folder folder(root);
  std::vector<std::string> paths;
  for (uint64_t step : folder.steps())
    paths.push_back(folder.pathOf(step));
  return paths;
}

ResumePoint::ResumePoint(const CheckpointOptions &options,
                         Communicator &communicator)
    : communicator(communicator) {
  if (options.resume.empty())
    return;
  std::string listed;
  if (communicator.rank() == 0)
    for (const std::string &path : candidates(options, named))
      listed += path + "\n";
  std::istringstream lines(textOfRank0(communicator, listed));
  for (std::string path; std::getline(lines, path);)
    paths.push_back(path);
  if (!paths.empty())
    openNewest();
  else if (options.resume != "auto")
    throw Error(E::CheckpointMissing,
                (isThere(options.resume)
                     ? "there is no checkpoint in " + options.resume
                     : flagOrArgument("--resume ", "resume=") + options.resume +
                           ": no such file or folder") +
                    "; name the folder of a checkpoint, or that of a run's "
                    "checkpoints");
  else
    said.push_back("no checkpoint in " + options.folder +
                   ", so the run begins at step 1");
}

/// Drops the first path where a rank could not read it.
bool ResumePoint::agree(const std::string &problem) {
  std::string first = firstProblem(communicator, problem);
  if (first.empty())
    return true;
  manifest.reset();
  paths.erase(paths.begin());
  if (paths.empty())
    throw Error(
        E::CheckpointDamaged,
        first + "; no checkpoint before it is whole: start again without " +
            flagOrArgument("--resume", "resume=") + ", in another folder");
  said.push_back(first + "; the checkpoint before it, " + paths.front() +
                 ", takes its place");
  return false;
}

void ResumePoint::openNewest() {
  std::string problem;
  do {
    problem.clear();
    try {
      manifest = checkpoint::readCheckpoint(paths.front());
      if (communicator.rank() == 0 && !named)
        checkpoint::requireOwnName(paths.front(), *manifest);
    } catch (const checkpoint::Damage &damage) {
      problem = damage.what();
    }
  } while (!agree(problem));
}

/// What another number of ranks reads has no state there.
void ResumePoint::readLoader() {
  size_t ranks = communicator.size();
  bool fits = manifest->ranks() == ranks && manifest->loaders.size() == ranks;
  loader = fits ? checkpoint::readLoaderState(folder(), *manifest,
                                              communicator.rank())
                : "";
}

void ResumePoint::load(const plan::PlanT &plan, Executor &executor) {
  for (;;) {
    checkpoint::checkFits(plan, *manifest, folder());
    std::string problem;
    try {
      checkpoint::loadCheckpoint(plan, folder(), *manifest, communicator.rank(),
                                 executor);
      readLoader();
    } catch (const checkpoint::Damage &damage) {
      problem = damage.what();
    }
    if (agree(problem))
      return;
    openNewest();
  }
}

} // namespace fsdp

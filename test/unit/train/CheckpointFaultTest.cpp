// Tests that no system call of saving is one too many: the process may be
// killed at each of them, and each may fail, and the run can go on.
#include "FailingCalls.h"
#include "TestRun.h"
#include "state/CheckpointFolder.h"
#include "state/CheckpointReader.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <sys/wait.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr uint64_t lastStep = 2;

/// A run of two ranks with a checkpoint after each step, of which one is kept.
class SavingRun : public TestRun {
public:
  SavingRun() : TestRun(2) {
    options.epochs.reset();
    options.poison = false;
    options.steps = lastStep;
    options.metrics.clear();
    options.checkpoints.folder = folder / "checkpoints";
    options.checkpoints.interval = 1;
    options.checkpoints.keep = 1;
    // One call after the other, so that each has its number.
    options.checkpoints.synchronous = true;
  }

  /// What a process that trains ends with: its wait status. Its error is left
  /// in a file.
  int trainApart(const FailingCall &call) {
    pid_t child = fork();
    if (child == 0) {
      setFailingCall(call);
      std::string error = train();
      int calls = countedCalls();
      setFailingCall({});
      std::ofstream(folder / "error") << error;
      std::ofstream(folder / "calls") << calls;
      _exit(error.empty() ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return status;
  }
  std::string read(const char *name) {
    std::ifstream file(folder / name);
    std::string text;
    std::getline(file, text);
    return text;
  }
  FailingCall call(int at, int error = 0, bool forGood = false) const {
    return {options.checkpoints.folder, at, error, forGood};
  }
  nlohmann::json summary() const {
    return nlohmann::json::parse(std::ifstream(options.summary));
  }
  std::vector<uint64_t> steps() const {
    return checkpoint::Folder(options.checkpoints.folder).steps();
  }
};

/// The weights of a run to which nothing happens, and how many calls it makes.
struct Undisturbed {
  Undisturbed() {
    SavingRun run;
    EXPECT_EQ(run.trainApart(run.call(0)), 0);
    calls = std::stoi(run.read("calls"));
    weights = run.saved();
    EXPECT_EQ(run.steps(), std::vector<uint64_t>{lastStep});
  }
  int calls;
  at::Tensor weights;
};

const Undisturbed &undisturbed() {
  static Undisturbed result;
  return result;
}

} // namespace

TEST(CheckpointFaults, AKillAtAnyCallLeavesAWholeCheckpoint) {
  const Undisturbed &expected = undisturbed();
  ASSERT_GT(expected.calls, 40);
  bool began = false; // a checkpoint was there once
  for (int at = 1; at <= expected.calls; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    SavingRun run;
    int status = run.trainApart(run.call(at));
    ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    std::vector<uint64_t> steps = run.steps();
    began = began || !steps.empty();
    EXPECT_EQ(!steps.empty(), began);
    for (uint64_t step : steps)
      EXPECT_NO_THROW(checkpoint::readCheckpoint(
          checkpoint::Folder(run.options.checkpoints.folder).pathOf(step)));
    run.options.checkpoints.resume = "auto";
    ASSERT_EQ(run.trainApart(run.call(0)), 0) << run.read("error");
    EXPECT_TRUE(at::equal(run.saved(), expected.weights));
    // And nothing half-written is left.
    for (const auto &entry :
         std::filesystem::directory_iterator(run.options.checkpoints.folder)) {
      std::string name = entry.path().filename();
      EXPECT_TRUE(name == "lock" || checkpoint::stepOfName(name) >= 0) << name;
    }
  }
}

TEST(CheckpointFaults, AFolderThatIsReadOnlyIsRefused) {
  SavingRun run;
  ASSERT_NE(run.trainApart(run.call(1, EROFS, /*forGood=*/true)), 0);
  std::string error = run.read("error");
  EXPECT_NE(error.find("cannot make the folder " +
                       run.options.checkpoints.folder + ": Read-only"),
            std::string::npos)
      << error;
}

TEST(CheckpointFaults, OneThatMustSucceedEndsTheRun) {
  SavingRun run;
  run.options.checkpoints.mustSucceed = true;
  // In the middle of the first of two.
  int at = undisturbed().calls / 4;
  ASSERT_NE(run.trainApart(run.call(at, ENOSPC, /*forGood=*/true)), 0);
  std::string error = run.read("error");
  EXPECT_NE(error.find("the checkpoint of step 1 could not be written"),
            std::string::npos)
      << error;
}

/// Whatever was at --save is there until what takes its place is whole.
TEST(CheckpointFaults, AFullDiskKeepsWhatWasSavedBefore) {
  at::Tensor before = numbers({out, in}, 9);
  for (int at = 1, status = 1; status; ++at) {
    SCOPED_TRACE("call " + std::to_string(at));
    SavingRun run;
    run.options.save = run.folder / "weights/w";
    std::filesystem::create_directory(run.folder / "weights");
    writeTensors(run.options.save, {{"w", before}});
    FailingCall full{run.folder / "weights", at, ENOSPC, /*forGood=*/true};
    status = run.trainApart(full);
    EXPECT_EQ(at::equal(run.saved(), before), status != 0);
    if (status) {
      // The first two calls are made before the first step: they try the place.
      std::string reason =
          at <= 2 ? "; name a file in a folder that is there"
                  : "; the weights are in " + run.options.checkpoints.folder;
      EXPECT_NE(run.read("error").find(reason), std::string::npos)
          << run.read("error");
    }
  }
}

TEST(CheckpointFaults, AFailureAtAnyCallLosesNoStep) {
  const Undisturbed &expected = undisturbed();
  for (int error : {ENOSPC, EIO})
    for (int at = 1; at <= expected.calls; ++at) {
      SCOPED_TRACE("call " + std::to_string(at) + ", " + std::strerror(error));
      SavingRun run;
      // A full disk stays full; an error may come once.
      int status = run.trainApart(run.call(at, error, error == ENOSPC));
      if (status != 0) {
        // Before the first step, since there is no folder to write into.
        EXPECT_NE(run.read("error").find(run.options.checkpoints.folder),
                  std::string::npos)
            << run.read("error");
        EXPECT_LE(at, 3);
        continue;
      }
      EXPECT_TRUE(at::equal(run.saved(), expected.weights));
      std::vector<uint64_t> steps = run.steps();
      for (uint64_t step : steps)
        EXPECT_NO_THROW(checkpoint::readCheckpoint(
            checkpoint::Folder(run.options.checkpoints.folder).pathOf(step)));
      // One that is not there was counted.
      bool hasLast = !steps.empty() && steps.front() == lastStep;
      EXPECT_TRUE(hasLast || run.summary()["failed_checkpoints"] > 0);
    }
}

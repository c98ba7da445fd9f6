// Tests that a run which was cut in two is the run that was not: on the same
// ranks bit by bit, on others from the same state.
#include "CutRun.h"
#include "Error.h"
#include "plan/Files.h"
#include "state/CheckpointFormat.h"
#include "state/CheckpointReader.h"
#include "state/CheckpointWriter.h"
#include "train/OutputFiles.h"

#include <algorithm>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// What is of the run, and not of the clock.
std::vector<nlohmann::json> results(TestRun &run) {
  std::vector<nlohmann::json> results;
  for (const nlohmann::json &row : run.rows()) {
    nlohmann::json kept;
    for (const char *name : {"step", "epoch", "loss", "lr", "eval_loss"})
      if (row.contains(name))
        kept[name] = row[name];
    results.push_back(kept);
  }
  return results;
}

} // namespace

TEST(Checkpoint, ACutRunIsTheWholeOne) {
  for (int ranks : {1, 2}) {
    CutRun whole(ranks), cut(ranks);
    ASSERT_EQ(whole.trainTo(6), "");
    cut.options.checkpoints.interval = 2;
    ASSERT_EQ(cut.trainTo(3), "");
    EXPECT_EQ(cut.steps(), (std::vector<uint64_t>{3, 2}));
    ASSERT_EQ(cut.goOnTo(6), "");
    EXPECT_EQ(results(cut), results(whole));
    EXPECT_TRUE(at::equal(cut.saved(), whole.saved()));
  }
}

TEST(Checkpoint, ARunWithoutStepsHasOneOfItsStart) {
  CutRun whole(1), cut(1);
  ASSERT_EQ(whole.trainTo(2), "");
  ASSERT_EQ(cut.trainTo(0), "");
  EXPECT_EQ(cut.steps(), std::vector<uint64_t>{0});
  ASSERT_EQ(cut.goOnTo(2), "");
  EXPECT_TRUE(at::equal(cut.saved(), whole.saved()));
}

TEST(Checkpoint, RowsOfStepsThatAreTakenAgainAreDropped) {
  CutRun whole(1), cut(1);
  ASSERT_EQ(whole.trainTo(6), "");
  cut.options.checkpoints.interval = 3;
  ASSERT_EQ(cut.trainTo(6), "");
  std::filesystem::remove_all(cut.pathOf(6));
  ASSERT_EQ(cut.goOnTo(6), "");
  EXPECT_EQ(results(cut), results(whole));
}

TEST(Checkpoint, OtherRanksGoOnFromTheSameBits) {
  std::string from;
  CutRun first(1, 12);
  ASSERT_EQ(first.trainTo(2), "");
  from = first.pathOf(2);
  // Nothing is left to train: each run hands the state on to the next.
  std::vector<std::unique_ptr<CutRun>> runs;
  for (int ranks : {2, 3, 4, 1}) {
    runs.push_back(std::make_unique<CutRun>(ranks, 12));
    ASSERT_EQ(runs.back()->goOnTo(2, from), "");
    from = runs.back()->pathOf(2);
    EXPECT_TRUE(at::equal(runs.back()->saved(), first.saved())) << ranks;
  }
  // The first and the last have the same cut, so the same bytes.
  EXPECT_EQ(
      readRegularFile(from + "/rank-00000.safetensors", 1 << 20),
      readRegularFile(first.pathOf(2) + "/rank-00000.safetensors", 1 << 20));
}

TEST(Checkpoint, TheSamplesThatFollowAreReadByOtherBatches) {
  // 2 steps of 8 are 4 steps of 4: the next one is the epoch's fifth.
  CutRun large(2, 8), small(1, 4);
  ASSERT_EQ(large.trainTo(2), "");
  ASSERT_EQ(small.goOnTo(4, large.pathOf(2)), "");
  auto rows = small.rows();
  EXPECT_EQ(rows[0]["step"], 3);
  EXPECT_EQ(rows[0]["epoch"], 1);
  // 26 samples are 6 batches of 4.
  EXPECT_EQ(rows[1]["epoch"], 1);
  EXPECT_TRUE(rows[2].contains("eval_loss"));
}

TEST(Checkpoint, OneIsWrittenWhenItsTimeHasCome) {
  CutRun often(2), seldom(2);
  often.options.checkpoints.seconds = 1e-9;
  seldom.options.checkpoints.seconds = 1e9;
  ASSERT_EQ(often.trainTo(3), "");
  ASSERT_EQ(seldom.trainTo(3), "");
  EXPECT_EQ(often.steps().back(), 1u);
  EXPECT_EQ(seldom.steps(), std::vector<uint64_t>{3});
}

TEST(Checkpoint, TheNewestAreKeptAndTheBest) {
  CutRun run(1);
  run.options.checkpoints.interval = 1;
  run.options.checkpoints.keep = 2;
  ASSERT_EQ(run.trainTo(5), "");
  EXPECT_EQ(run.steps(), (std::vector<uint64_t>{5, 4}));
  for (const char *metric : {"loss", "eval_loss"}) {
    CutRun best(1);
    best.options.checkpoints.interval = 1;
    best.options.checkpoints.keep = 1;
    best.options.checkpoints.keepBest = metric;
    best.options.evalInterval = 2;
    ASSERT_EQ(best.trainTo(5), "");
    uint64_t least = 0;
    double value = INFINITY;
    for (const nlohmann::json &row : best.rows())
      if (row.contains(metric) && row[metric] < value) {
        value = row[metric];
        least = row["step"];
      }
    std::vector<uint64_t> expected = {5};
    if (least != 5)
      expected.push_back(least);
    EXPECT_EQ(best.steps(), expected) << metric;
  }
}

TEST(Checkpoint, ADiskWithoutRoomForOneIsRefused) {
  TemporaryFolder folder;
  EXPECT_NO_THROW(requireRoom("a checkpoint", 1, folder.path));
  try {
    requireRoom("a checkpoint", uint64_t(1) << 62, folder.path);
    FAIL();
  } catch (const Error &error) {
    EXPECT_EQ(error.kind, E::FileUnwritable);
    EXPECT_NE(std::string(error.what()).find("the disk of " + folder.path),
              std::string::npos)
        << error.what();
  }
}

TEST(Checkpoint, TwoRunsDoNotShareAFolder) {
  CutRun run(1);
  checkpoint::Folder other(run.options.checkpoints.folder);
  other.lock();
  EXPECT_NE(run.trainTo(1).find("another run"), std::string::npos);
}

TEST(Checkpoint, ARunDoesNotGoOnUnasked) {
  CutRun run(1);
  ASSERT_EQ(run.trainTo(1), "");
  EXPECT_NE(run.trainTo(2).find("--resume auto"), std::string::npos);
}

TEST(Checkpoint, AFolderOfAnotherPastIsNotGoneOnIn) {
  CutRun one(1), other(1);
  ASSERT_EQ(one.trainTo(2), "");
  ASSERT_EQ(other.trainTo(1), "");
  std::string error = other.goOnTo(4, one.pathOf(2));
  EXPECT_NE(error.find("has checkpoints of a run, the newest of step 1; go on"),
            std::string::npos)
      << error;
  EXPECT_EQ(other.steps(), std::vector<uint64_t>{1});
}

TEST(Checkpoint, AFolderOfAnotherFutureIsNotGoneOnIn) {
  CutRun run(2);
  run.options.checkpoints.interval = 1;
  ASSERT_EQ(run.trainTo(3), "");
  std::string error = run.goOnTo(4, run.pathOf(1));
  EXPECT_NE(error.find("the newest of step 3, and this run goes on from step "
                       "1; name another folder"),
            std::string::npos)
      << error;
  for (uint64_t step : {2, 3})
    std::filesystem::remove_all(run.pathOf(step));
  EXPECT_EQ(run.goOnTo(4, run.pathOf(1)), "");
}

TEST(Checkpoint, ADamagedOneTakesNoNewOnesPlace) {
  CutRun whole(1), cut(1);
  ASSERT_EQ(whole.trainTo(6), "");
  cut.options.checkpoints.interval = 2;
  ASSERT_EQ(cut.trainTo(4), "");
  flipBit(cut.pathOf(4) + "/checkpoint.json", 100, 0);
  cut.options.checkpoints.keep = 1;
  ASSERT_EQ(cut.goOnTo(3), "");
  EXPECT_EQ(cut.steps(), (std::vector<uint64_t>{4, 3}));
  ASSERT_EQ(cut.goOnTo(6), "");
  EXPECT_EQ(cut.steps(), std::vector<uint64_t>{6});
  EXPECT_TRUE(at::equal(cut.saved(), whole.saved()));
}

TEST(Checkpoint, AFolderThatIsRemovedIsMadeAndLockedAgain) {
  TemporaryFolder place;
  checkpoint::Folder folder(place / "checkpoints"),
      other(place / "checkpoints");
  folder.lock();
  EXPECT_TRUE(folder.isLocked());
  std::filesystem::remove_all(folder.path());
  EXPECT_FALSE(folder.isLocked());
  folder.lock();
  EXPECT_TRUE(folder.isLocked());
  EXPECT_THROW(other.lock(), Error);
  // Whoever comes after the lock's file was removed has it, and keeps it.
  std::filesystem::remove(folder.path() + "/lock");
  other.lock();
  EXPECT_FALSE(folder.isLocked());
  EXPECT_THROW(folder.lock(), Error);
}

TEST(Checkpoint, OneThatIsRemovedWhileItIsWrittenIsAnError) {
  TemporaryFolder place;
  checkpoint::Facts facts;
  facts.mesh = {{"shard", 2}};
  std::atomic<bool> cancelled = false;
  EXPECT_THROW(checkpoint::commitShards(checkpoint::Folder(place.path), facts,
                                        cancelled),
               Error);
}

TEST(Checkpoint, AnotherModelIsRefused) {
  CutRun run(1);
  ASSERT_EQ(run.trainTo(1), "");
  run.loaded.plan->states[0]->fqn = "other";
  std::string error = run.goOnTo(2);
  EXPECT_NE(error.find("it has no other; the plan has no w"), std::string::npos)
      << error;
}

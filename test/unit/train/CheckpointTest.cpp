// Tests that a run which was cut in two is the run that was not: on the same
// ranks bit by bit, on others from the same state.
#include "Error.h"
#include "TestRun.h"
#include "plan/Files.h"
#include "state/CheckpointFolder.h"
#include "state/CheckpointFormat.h"
#include "state/CheckpointReader.h"
#include "state/CheckpointWriter.h"
#include "state/Hash.h"
#include "train/OutputFiles.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// A run that trains up to a step and then goes on to the end.
class CutRun : public TestRun {
public:
  explicit CutRun(int ranks, int64_t globalBatch = 8)
      : TestRun(ranks, globalBatch) {
    options.evalData = options.data;
    options.checkpoints.folder = folder / "checkpoints";
    options.checkpoints.keep = 0;
  }
  std::string trainTo(uint64_t steps) {
    options.epochs.reset();
    options.steps = steps;
    return train();
  }
  std::string goOnTo(uint64_t steps, const std::string &from = "auto") {
    options.checkpoints.resume = from;
    return trainTo(steps);
  }
  std::vector<uint64_t> steps() const {
    return checkpoint::Folder(options.checkpoints.folder).steps();
  }
  std::string pathOf(uint64_t step) const {
    return checkpoint::Folder(options.checkpoints.folder).pathOf(step);
  }
};

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

void flipBit(const std::string &path, uint64_t byte, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(byte);
  char value = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(byte);
  file.put(value);
}

/// Puts the state of a rank's loader into a checkpoint.
void addLoader(const std::string &folder, int rank, const std::string &state) {
  checkpoint::Manifest manifest = checkpoint::readCheckpoint(folder);
  manifest.loaders.push_back(
      {rank, state.size(), checkpoint::hashOf(state.data(), state.size())});
  std::ofstream(folder + "/" + checkpoint::loaderName(rank)) << state;
  std::ofstream(folder + "/" + checkpoint::manifestName)
      << checkpoint::writeManifest(manifest);
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

TEST(Checkpoint, EveryFlippedBitIsFound) {
  CutRun run(2);
  ASSERT_EQ(run.trainTo(1), "");
  std::string folder = run.pathOf(1);
  addLoader(folder, 1, "after batch 1");
  std::vector<float> w(out * in);
  auto read = [&] {
    checkpoint::Manifest manifest = checkpoint::readCheckpoint(folder);
    checkpoint::Reader reader(folder, manifest);
    Part whole{0, 0, out * in};
    reader.read(manifest.tensors.at(0), whole, 0,
                reinterpret_cast<char *>(w.data()));
    checkpoint::readLoaderState(folder, manifest, 1);
  };
  ASSERT_NO_THROW(read());
  for (const auto &entry : std::filesystem::directory_iterator(folder)) {
    std::string path = entry.path();
    for (uint64_t byte = 0; byte < std::filesystem::file_size(path); ++byte) {
      int bit = byte * 7 % 8;
      flipBit(path, byte, bit);
      EXPECT_THROW(read(), checkpoint::Damage) << path << ", byte " << byte;
      flipBit(path, byte, bit);
    }
  }
  ASSERT_NO_THROW(read());
}

// Of 1 MiB in two files: random bits, and every cut at a page.
TEST(Checkpoint, RandomDamageNamesFileAndTensor) {
  constexpr int64_t rows = 512, columns = 512;
  CutRun run(2);
  run.loaded.plan = std::make_unique<plan::PlanT>(
      std::move(linearRegression(2, rows, columns, 4)->finish()));
  writeTensors(run.options.weights, {{"w", numbers({rows, columns}, 1)}});
  writeTensors(run.options.data, {{"x", numbers({samples, columns}, 2)},
                                  {"y", numbers({samples, rows}, 3)}});
  run.options.evalData = "";
  ASSERT_EQ(run.trainTo(1), "");
  std::string folder = run.pathOf(1);
  std::vector<float> w(rows * columns);
  // What a run says that resumes from it.
  auto damage = [&]() -> std::string {
    try {
      checkpoint::Manifest manifest = checkpoint::readCheckpoint(folder);
      checkpoint::Reader reader(folder, manifest);
      for (const checkpoint::StoredTensor &tensor : manifest.tensors)
        reader.read(tensor, {0, 0, rows * columns}, 0,
                    reinterpret_cast<char *>(w.data()));
      return "";
    } catch (const checkpoint::Damage &error) {
      return error.what();
    }
  };
  ASSERT_EQ(damage(), "");
  constexpr unsigned seed = 11;
  std::mt19937_64 random(seed);
  std::vector<std::string> paths;
  for (const auto &entry : std::filesystem::directory_iterator(folder))
    paths.push_back(entry.path());
  std::sort(paths.begin(), paths.end());
  ASSERT_EQ(paths.size(), 3u);
  constexpr int flips = 10000;
  for (int i = 0; i < flips; ++i) {
    // The manifest is small, and has its share all the same.
    const std::string &path = paths[random() % paths.size()];
    uint64_t size = std::filesystem::file_size(path), byte = random() % size;
    int bit = random() % 8;
    flipBit(path, byte, bit);
    std::string said = damage();
    EXPECT_NE(said.find(std::filesystem::path(path).filename()),
              std::string::npos)
        << path << ", byte " << byte << ", bit " << bit << ": " << said;
    // The tensor is all that stands behind a file's header.
    if (path != paths[0] && byte >= size - rows * columns / 2 * sizeof(float)) {
      EXPECT_NE(said.find(" w "), std::string::npos) << said;
    }
    flipBit(path, byte, bit);
  }
  constexpr uint64_t page = 4096;
  int cuts = 0;
  for (const std::string &path : paths) {
    std::string whole = readRegularFile(path, 1 << 30);
    for (uint64_t bytes = 0; bytes < whole.size(); bytes += page, ++cuts) {
      std::filesystem::resize_file(path, bytes);
      EXPECT_NE(damage().find(std::filesystem::path(path).filename()),
                std::string::npos)
          << path << " of " << bytes << " bytes: " << damage();
      std::ofstream(path, std::ios::binary) << whole;
    }
  }
  EXPECT_GT(cuts, 250);
  EXPECT_EQ(damage(), "");
}

TEST(Checkpoint, OneWithADamagedLoaderIsDamaged) {
  CutRun run(1);
  run.options.checkpoints.interval = 1;
  ASSERT_EQ(run.trainTo(2), "");
  addLoader(run.pathOf(2), 0, "after batch 2");
  flipBit(run.pathOf(2) + "/rank-00000.loader", 0, 0);
  ASSERT_EQ(run.goOnTo(1), "");
  EXPECT_NE(run.goOnTo(2, run.pathOf(2)).find("rank-00000.loader is damaged"),
            std::string::npos);
}

TEST(Checkpoint, TheOneBeforeADamagedOneIsTaken) {
  CutRun whole(2), cut(2);
  ASSERT_EQ(whole.trainTo(6), "");
  cut.options.checkpoints.interval = 2;
  ASSERT_EQ(cut.trainTo(4), "");
  std::string newest = cut.pathOf(4) + "/rank-00001.safetensors";
  flipBit(newest, std::filesystem::file_size(newest) - 1, 0);
  ASSERT_EQ(cut.goOnTo(6), "");
  EXPECT_TRUE(at::equal(cut.saved(), whole.saved()));
  // The damaged one is whole again.
  EXPECT_NO_THROW(checkpoint::readCheckpoint(cut.pathOf(4)));

  CutRun all(1);
  ASSERT_EQ(all.trainTo(1), "");
  std::string only = all.pathOf(1) + "/rank-00000.safetensors";
  std::filesystem::resize_file(only, std::filesystem::file_size(only) / 2);
  std::string error = all.goOnTo(2);
  EXPECT_NE(error.find("rank-00000.safetensors"), std::string::npos) << error;
}

TEST(Checkpoint, AnotherModelIsRefused) {
  CutRun run(1);
  ASSERT_EQ(run.trainTo(1), "");
  run.loaded.plan->states[0]->fqn = "other";
  std::string error = run.goOnTo(2);
  EXPECT_NE(error.find("it has no other; the plan has no w"), std::string::npos)
      << error;
}

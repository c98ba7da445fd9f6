// Tests that damage to a checkpoint is found and named, wherever it is, and that
// a run goes on from the one before.
#include "CutRun.h"
#include "Error.h"
#include "plan/Files.h"
#include "state/CheckpointFormat.h"
#include "state/CheckpointReader.h"
#include "state/Hash.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace fsdp;
using namespace fsdp::test;

namespace {

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

TEST(DamagedCheckpoint, EveryFlippedBitIsFound) {
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
TEST(DamagedCheckpoint, RandomDamageNamesFileAndTensor) {
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

TEST(DamagedCheckpoint, OneWithADamagedLoaderIsDamaged) {
  CutRun run(1);
  run.options.checkpoints.interval = 1;
  ASSERT_EQ(run.trainTo(2), "");
  addLoader(run.pathOf(2), 0, "after batch 2");
  flipBit(run.pathOf(2) + "/rank-00000.loader", 0, 0);
  ASSERT_EQ(run.goOnTo(1), "");
  EXPECT_NE(run.goOnTo(2, run.pathOf(2)).find("rank-00000.loader is damaged"),
            std::string::npos);
}

TEST(DamagedCheckpoint, TheOneBeforeADamagedOneIsTaken) {
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

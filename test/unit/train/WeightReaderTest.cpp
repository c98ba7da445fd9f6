// Tests that ranks which read other weights than each other are refused,
// wherever the difference is.
#include "state/WeightReader.h"

#include "Error.h"
#include "TestRun.h"

#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// What each of some ranks says that opens a file of its own; "": nothing.
std::vector<std::string> errorsOf(const std::vector<std::string> &paths) {
  ThreadRanks group(paths.size());
  std::vector<std::string> errors(paths.size());
  std::vector<std::thread> threads;
  for (size_t rank = 0; rank < paths.size(); ++rank)
    threads.emplace_back([&, rank] {
      auto communicator = group.connect(rank);
      try {
        WeightReader reader(paths[rank], /*fromRank0=*/false, *communicator);
      } catch (const Error &error) {
        errors[rank] = error.what();
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

} // namespace

TEST(WeightReader, CopiesAreTheSameWeights) {
  TemporaryFolder folder;
  // Of several blocks that are hashed.
  at::Tensor w = numbers({3, 1 << 20}, 1);
  for (const char *name : {"one", "two"})
    writeTensors(folder / name, {{"v", w[0].sin()}, {"w", w}});
  for (const std::string &error :
       errorsOf({folder / "one", folder / "one", folder / "two"}))
    EXPECT_EQ(error, "");
}

TEST(WeightReader, AnyOtherNumberIsADifference) {
  TemporaryFolder folder;
  at::Tensor w = numbers({3, 1 << 20}, 1), other = w.clone();
  other[1][1234] += 1;
  writeTensors(folder / "one", {{"w", w}});
  writeTensors(folder / "two", {{"w", other}});
  for (const std::string &error :
       errorsOf({folder / "one", folder / "one", folder / "two"}))
    EXPECT_NE(error.find("rank 0 finds"), std::string::npos) << error;
}

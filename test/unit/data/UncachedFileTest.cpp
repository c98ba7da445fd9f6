// Tests that a file which is written past the page cache has all of its bytes
// and no more, whether or not the file system has such a way.
#include "data/UncachedFile.h"

#include "Error.h"
#include "TemporaryFolder.h"
#include "device/HugePages.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sys/mman.h>
#include <unistd.h>

using namespace fsdp;
using fsdp::test::TemporaryFolder;

namespace {

/// Whole pages of numbers that differ.
struct Pages {
  explicit Pages(uint64_t bytes)
      : bytes((bytes + 4095) / 4096 * 4096), data(mapAligned(this->bytes)) {
    for (uint64_t i = 0; i < this->bytes; ++i)
      data[i] = static_cast<char>(i * 2654435761u >> 13);
  }
  ~Pages() { munmap(data, bytes); }
  uint64_t bytes;
  char *data;
};

std::string read(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace

TEST(UncachedFile, HasTheBytesThatWereGiven) {
  constexpr uint64_t most = (8 << 20) + 5;
  Pages pages(most);
  TemporaryFolder folder;
  // A file system of its own kind, often one without such a way.
  std::string memory = "/dev/shm/uncached." + std::to_string(getpid());
  for (const std::string &path : {folder / "f", memory})
    for (uint64_t bytes : {uint64_t(1), uint64_t(4095), uint64_t(4096),
                           uint64_t(4097), uint64_t(4 << 20), most}) {
      writeUncached(path, pages.data, bytes, [] {});
      EXPECT_TRUE(read(path) == std::string(pages.data, bytes)) << bytes;
      std::filesystem::remove(path);
    }
}

TEST(UncachedFile, IsGivenUpBetweenBlocks) {
  Pages pages(12 << 20);
  TemporaryFolder folder;
  int blocks = 0;
  auto third = [&] {
    if (++blocks == 3)
      throw 3;
  };
  EXPECT_THROW(writeUncached(folder / "f", pages.data, pages.bytes, third),
               int);
  EXPECT_EQ(std::filesystem::file_size(folder / "f"), 8u << 20);
  // Nor is what is there replaced.
  EXPECT_THROW(writeUncached(folder / "f", pages.data, 1, [] {}), Error);
}

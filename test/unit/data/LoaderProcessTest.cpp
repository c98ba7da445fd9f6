// Tests that a rank waits for the process of its loader as long as it should,
// says why that ended, and leaves none of its processes behind.
#include "data/LoaderProcess.h"

#include "Error.h"
#include "TemporaryFolder.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <thread>

using namespace fsdp;
using fsdp::test::TemporaryFolder;
using namespace std::chrono_literals;

namespace {

const std::vector<std::vector<Column>> columns = {
    {{"x", plan::DType::Float32, {2, 3}}, {"y", plan::DType::Int64, {2}}}};
const BatchRing::Reader reader = {1, 2, 7};

/// Why nothing became ready.
std::string failure(const std::string &command,
                    std::chrono::milliseconds patience = 30s) {
  BatchRing ring(columns, reader);
  LoaderProcess loader(command, ring, reader, patience);
  try {
    loader.awaitReady("batch 0");
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

void expectIn(const std::string &part, const std::string &text) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

/// The memory as the loader's process sees it.
char *seenByLoader(const BatchRing &ring) {
  void *memory = mmap(nullptr, ring.bytes(), PROT_READ | PROT_WRITE, MAP_SHARED,
                      ring.descriptor(), 0);
  EXPECT_NE(memory, MAP_FAILED);
  return static_cast<char *>(memory);
}

} // namespace

TEST(LoaderProcess, AnEndIsDescribed) {
  expectIn("ended with status 3, and batch 0 is due", failure("exit 3"));
  expectIn("ended by signal 9 (Killed)", failure("kill -9 $$"));
  expectIn("ended with status 127",
           failure("no-such-program 2> /dev/null; exit 127"));
}

TEST(LoaderProcess, PatienceEnds) {
  expectIn("has given nothing for 0 s, and batch 0 is due",
           failure("sleep 100", 50ms));
}

TEST(LoaderProcess, TheEnvironmentNamesRankAndRing) {
  TemporaryFolder folder;
  std::string file = folder / "said";
  failure("echo $RANK $WORLD_SIZE > " + file +
          "; ls -l /proc/self/fd/${FSDP_MLIR_RING%%,*} >> " + file);
  std::ifstream said(file);
  std::string first, second;
  std::getline(said, first);
  std::getline(said, second);
  EXPECT_EQ(first, "1 2");
  expectIn("memfd:fsdp", second);
}

TEST(LoaderProcess, ItsProcessesEndWithIt) {
  TemporaryFolder folder;
  std::string file = folder / "pid";
  pid_t worker = 0;
  {
    BatchRing ring(columns, reader);
    LoaderProcess loader("sleep 1000 & echo $! > " + file + "; exit 0", ring,
                         reader, 30s);
    EXPECT_THROW(loader.awaitReady("batch 0"), Error);
    std::ifstream(file) >> worker;
    ASSERT_GT(worker, 0);
    EXPECT_EQ(kill(worker, 0), 0);
  }
  // It is nobody's child here: whoever reaps it may take a moment.
  auto isRunning = [&] {
    std::string state;
    std::ifstream status("/proc/" + std::to_string(worker) + "/stat");
    status >> state >> state >> state;
    return !state.empty() && state != "Z" && state != "X";
  };
  for (int i = 0; i < 1000 && isRunning(); ++i)
    std::this_thread::sleep_for(10ms);
  EXPECT_FALSE(isRunning());
}

TEST(BatchRing, WhatALoaderWritesIsNotBelieved) {
  BatchRing ring(columns, reader);
  EXPECT_THROW(ring.extent(), Error); // nothing is said
  char *memory = seenByLoader(ring);
  auto set = [&](uint64_t at, int64_t value) {
    std::memcpy(memory + at, &value, sizeof(value));
  };
  for (int64_t count : {int64_t{-2}, int64_t{0}}) {
    set(88, count);
    EXPECT_THROW(ring.extent(), Error) << count;
  }
  set(88, 5);
  EXPECT_EQ(ring.extent().batches, 5);
  EXPECT_THROW(ring.at(0), Error); // an empty slot
  uint64_t slot;
  std::memcpy(&slot, memory + 32, sizeof(slot));
  for (int64_t i = 0; i < 5; ++i)
    set(slot + 8 * i, i == 0 ? 1 : 40 + i);
  BatchRing::Batch batch = ring.at(0);
  EXPECT_EQ(batch.epoch, 41);
  EXPECT_EQ(batch.number, 42);
  EXPECT_EQ(batch.nanColumn, -1); // there is no column 43
  // An error without an end, wherever it is said to be.
  set(56, INT64_MAX);
  set(96, -1);
  EXPECT_LE(ring.problem().size(), size_t{1} << 16);
  munmap(memory, ring.bytes());
}

// Tests that collectives beside compute give the bits of those in line with it,
// copied or mapped, however late a rank is with any of them.
#include "executor/HostBackend.h"
#include "executor/HostStreams.h"

#include "Layers.h"
#include "TensorFunctions.h"
#include "ThreadRanks.h"

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <random>

using namespace fsdp;
using namespace fsdp::test;

namespace {

enum class Late {
  Nobody,
  BeforeGather,
  AfterForward,
  BeforeReduce,
  BeforeUpdate,
  Always
};

/// Sleeps, on each rank for another while, before some of what it hands on.
class Delayed : public Communicator {
public:
  Delayed(std::unique_ptr<Communicator> inner, Late late)
      : inner(std::move(inner)), late(late), random(this->inner->rank()) {}

  int rank() const override { return inner->rank(); }
  int size() const override { return inner->size(); }
  std::string transport() const override { return inner->transport(); }
  uint64_t start(const Transfer &transfer) override {
    bool gathers = transfer.kind == plan::CollectiveKind::AllGather;
    if (!gathers && forward.exchange(false))
      pause(Late::AfterForward);
    forward = gathers;
    pause(gathers ? Late::BeforeGather : Late::BeforeReduce);
    return inner->start(transfer);
  }
  void finish(uint64_t transfer) override {
    inner->finish(transfer);
    pause(Late::BeforeUpdate);
  }
  std::unique_ptr<ArenaMemory> allocate(const ArenaLayout &layout) override {
    auto memory = inner->allocate(layout);
    EXPECT_EQ(memory->mapped(), layout.windowBytes > 0);
    return memory;
  }
  void leave(const std::string &why) override { inner->leave(why); }

private:
  void pause(Late now) {
    if (late != now && late != Late::Always)
      return;
    std::unique_lock<std::mutex> lock(mutex);
    auto length = std::chrono::microseconds(random() % 3000);
    lock.unlock();
    std::this_thread::sleep_for(length);
  }

  std::unique_ptr<Communicator> inner;
  Late late;
  std::atomic<bool> forward = false; // the last start was a gather's
  std::mutex mutex; // of what follows: streams may have threads
  std::minstd_rand random;
};

std::vector<at::Tensor> train(const plan::PlanT &plan, HostStreamKind kind,
                              Late late) {
  ThreadRanks group(ranks);
  return trainLayers(plan, [&](int rank, const OnBackend &body) {
    Delayed communicator(group.connect(rank), late);
    HostBackend backend(communicator, kind);
    body(backend);
  });
}

class StreamsOfHost
    : public testing::TestWithParam<std::tuple<HostStreamKind, Late, bool>> {};

} // namespace

TEST_P(StreamsOfHost, DelaysChangeNoBit) {
  auto [kind, late, mapped] = GetParam();
  auto inLine = prefetching(), beside = prefetching(mapped);
  auto expected = train(inLine->finish(), HostStreamKind::Inline, Late::Nobody);
  plan::PlanT &plan = beside->finish();
  spread(plan);
  auto actual = train(plan, kind, late);
  for (int r = 0; r < ranks; ++r)
    EXPECT_TRUE(at::equal(expected[r], actual[r])) << "rank " << r;
}

INSTANTIATE_TEST_SUITE_P(
    Late, StreamsOfHost,
    testing::Combine(
        testing::Values(HostStreamKind::Inline, HostStreamKind::Threads),
        testing::Values(Late::Nobody, Late::BeforeGather, Late::AfterForward,
                        Late::BeforeReduce, Late::BeforeUpdate, Late::Always),
        testing::Bool()));

namespace {

/// One of two ranks, which only notes what it is told.
class Notebook : public Communicator {
public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::string transport() const override { return "nothing"; }
  uint64_t start(const Transfer &transfer) override {
    notes.push_back("start " + std::to_string(started));
    return started++ * numChannels + transfer.channel;
  }
  void finish(uint64_t transfer) override {
    notes.push_back("finish " + std::to_string(transfer / numChannels));
  }
  void leave(const std::string &) override {}

  std::vector<std::string> notes;

private:
  uint64_t started = 0;
};

/// What inline streams do with two reductions, one behind the other on a
/// stream, where the second reads `source` of ten numbers.
std::vector<std::string> notesOf(float *numbers, const float *source) {
  Notebook notebook;
  auto streams = makeInlineStreams(notebook);
  Transfer scatter{plan::CollectiveKind::ReduceScatter, numbers, numbers + 4, 2,
                   plan::DType::Float32};
  Transfer sum{plan::CollectiveKind::AllReduce, source, numbers + 8, 2,
               plan::DType::Float32};
  streams->begin(0);
  streams->transfer(2, scatter, "");
  streams->transfer(2, sum, "");
  streams->end();
  return notebook.notes;
}

} // namespace

TEST(InlineStreams, ATransferStartsWhenWhatItReadsOnItsStreamIsThere) {
  float numbers[10] = {};
  std::vector<std::string> inOrder = {"start 0", "finish 0", "start 1",
                                      "finish 1"};
  EXPECT_EQ(notesOf(numbers, numbers + 4), inOrder);
}

TEST(InlineStreams, TransfersOfDifferentMemoryAreUnderWayTogether) {
  float numbers[10] = {};
  std::vector<std::string> together = {"start 0", "start 1", "finish 0",
                                       "finish 1"};
  EXPECT_EQ(notesOf(numbers, numbers + 6), together);
}

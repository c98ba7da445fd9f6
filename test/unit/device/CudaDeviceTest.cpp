// Tests that a GPU's memory, streams, events, copies and graphs do what a
// plan's commands ask of them: on a real GPU, skipped with the reason where
// there is none, and on an imitated one.
#include "device/Device.h"

#include "Error.h"
#ifdef FSDP_IMITATION
#include "gpu/imitation/ImitatedDevice.h"
#endif

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

using namespace fsdp;

namespace {

constexpr unsigned streams = 3;
constexpr uint64_t large = uint64_t(8) << 20; // takes a while to copy

using Open = std::unique_ptr<Device> (*)(int index, unsigned streams);

struct Gpu {
  const char *name;
  Open open;
};

class CudaDevice : public testing::TestWithParam<Gpu> {
protected:
  void SetUp() override {
    try {
      device = GetParam().open(0, streams);
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
  }

  DeviceMemory pinnedNumbers(uint64_t bytes) {
    DeviceMemory memory = device->allocatePinned(bytes);
    std::iota(memory.data(), memory.data() + bytes, 0);
    return memory;
  }

  std::vector<char> contents(const DeviceMemory &memory) {
    std::vector<char> bytes(memory.bytes);
    device->copy(0, bytes.data(), memory.data(), memory.bytes);
    device->drain();
    return bytes;
  }

  std::unique_ptr<Device> device;
};

INSTANTIATE_TEST_SUITE_P(Real, CudaDevice,
                         testing::Values(Gpu{"", openCudaDevice}),
                         [](auto &) { return "Gpu"; });
#ifdef FSDP_IMITATION
INSTANTIATE_TEST_SUITE_P(Imitated, CudaDevice,
                         testing::Values(Gpu{"", imitation::openDevice}),
                         [](auto &) { return "Gpu"; });
#endif

} // namespace

TEST_P(CudaDevice, SaysWhatItIs) {
  EXPECT_NE(device->describe().find("driver for CUDA"), std::string::npos);
  EXPECT_GT(device->freeBytes(), 0u);
  EXPECT_EQ(device->index(), 0);
}

TEST_P(CudaDevice, DevicesOfOneGpuKnowEachOther) {
  auto other = GetParam().open(0, streams);
  EXPECT_EQ(device->identity(), other->identity());
  EXPECT_EQ(device->identity().size(), 16u);
  EXPECT_NE(device->stream(0), other->stream(0));
}

TEST_P(CudaDevice, MemoryIsAlignedAndZero) {
  DeviceMemory memory = device->allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
  EXPECT_EQ(contents(memory), std::vector<char>(1000, 0));
  memory = device->allocatePinned(1000);
  EXPECT_EQ(std::count(memory.data(), memory.data() + 1000, 0), 1000);
}

TEST_P(CudaDevice, PinnedMemoryIsZero) {
  DeviceMemory memory = device->allocatePinned(1000);
  EXPECT_EQ(std::count(memory.data(), memory.data() + 1000, 0), 1000);
}

TEST_P(CudaDevice, NoMemoryIsNothing) {
  EXPECT_EQ(device->allocate(0).data(), nullptr);
  EXPECT_EQ(device->allocatePinned(0).data(), nullptr);
  device->copy(0, nullptr, nullptr, 0);
  device->fill(0, nullptr, 0, 0);
  device->drain();
}

TEST_P(CudaDevice, CopiesThereAndBack) {
  DeviceMemory from = pinnedNumbers(1000), to = device->allocatePinned(1000);
  DeviceMemory memory = device->allocate(1000);
  device->copy(1, memory.data(), from.data(), 1000);
  device->fill(1, memory.data(), 0, 10);
  device->copy(1, to.data(), memory.data(), 1000);
  device->drain();
  EXPECT_EQ(std::count(to.data(), to.data() + 10, 0), 10);
  EXPECT_EQ(std::memcmp(to.data() + 10, from.data() + 10, 990), 0);
}

TEST_P(CudaDevice, CopiesMemoryThatTheHostAllocated) {
  std::vector<char> from(1000, 7);
  DeviceMemory memory = device->allocate(1000);
  device->copy(1, memory.data(), from.data(), 1000);
  device->drain();
  EXPECT_EQ(contents(memory), from);
}

TEST_P(CudaDevice, RowsKeepTheirDistances) {
  // Four rows of three bytes, ten apart, become five apart.
  DeviceMemory from = pinnedNumbers(40), to = device->allocate(20);
  device->fill(1, to.data(), 9, 20);
  device->copyRows(1, to.data(), 5, from.data(), 10, 3, 4);
  device->drain();
  EXPECT_EQ(contents(to),
            (std::vector<char>{0,  1,  2,  9, 9, 10, 11, 12, 9, 9,
                               20, 21, 22, 9, 9, 30, 31, 32, 9, 9}));
}

TEST_P(CudaDevice, RowsAreFilledAndWhatIsBetweenThemIsNot) {
  DeviceMemory memory = device->allocate(12);
  device->fillRows(2, memory.data(), 5, 0xA5, 2, 3);
  device->drain();
  char x = static_cast<char>(0xA5);
  EXPECT_EQ(contents(memory),
            (std::vector<char>{x, x, 0, 0, 0, x, x, 0, 0, 0, x, x}));
}

TEST_P(CudaDevice, ARowByItselfHasNoDistance) {
  DeviceMemory from = pinnedNumbers(10), to = device->allocate(10);
  device->copyRows(1, to.data(), 0, from.data(), 3, 10, 1);
  device->fillRows(1, to.data(), 0, 7, 2, 1);
  device->copyRows(1, to.data(), 0, from.data(), 0, 10, 0); // nor has none
  device->drain();
  EXPECT_EQ(contents(to), (std::vector<char>{7, 7, 2, 3, 4, 5, 6, 7, 8, 9}));
}

TEST_P(CudaDevice, RowsThatTouchAreOneCopy) {
  DeviceMemory from = pinnedNumbers(60), to = device->allocate(60);
  device->copyRows(1, to.data(), 20, from.data(), 20, 20, 3);
  device->fillRows(1, to.data(), 4, 1, 4, 5);
  device->drain();
  std::vector<char> seen = contents(to);
  EXPECT_EQ(std::count(seen.begin(), seen.begin() + 20, 1), 20);
  EXPECT_EQ(std::memcmp(seen.data() + 20, from.data() + 20, 40), 0);
}

TEST_P(CudaDevice, AStreamWaitsForAnothersEvent) {
  DeviceMemory from = pinnedNumbers(large), to = device->allocatePinned(large);
  DeviceMemory memory = device->allocate(large);
  // Twice: an event is recorded anew in each step.
  for (int step = 0; step < 2; ++step) {
    device->fill(2, memory.data(), 0, large);
    device->drain();
    device->copy(1, memory.data(), from.data(), large);
    device->record(1, 7);
    device->wait(2, 7);
    device->copy(2, to.data(), memory.data(), large);
    device->drain();
    EXPECT_EQ(std::memcmp(to.data(), from.data(), large), 0);
    std::memset(to.data(), 0, large);
  }
}

TEST_P(CudaDevice, AnEventIsOverWhenWhatItMarksIs) {
  DeviceMemory from = pinnedNumbers(large), memory = device->allocate(large);
  EXPECT_TRUE(device->isOver(0)); // never recorded
  device->copy(1, memory.data(), from.data(), large);
  device->record(1, 0);
  EXPECT_TRUE(device->isOver(5));
  while (!device->isOver(0))
    ;
  EXPECT_EQ(std::memcmp(contents(memory).data(), from.data(), large), 0);
}

TEST_P(CudaDevice, TellsWhenWhatIsOnAStreamWasOver) {
  DeviceMemory from = pinnedNumbers(large), memory = device->allocate(large);
  EXPECT_TRUE(device->takeTimes().empty());
  for (int run = 0; run < 2; ++run) {
    EXPECT_EQ(device->markTime(0), 0u);
    EXPECT_EQ(device->markTime(1), 1u);
    device->copy(1, memory.data(), from.data(), large);
    EXPECT_EQ(device->markTime(1), 2u);
    device->drain();
    std::vector<int64_t> times = device->takeTimes();
    ASSERT_EQ(times.size(), 3u);
    EXPECT_EQ(times[0], 0);
    EXPECT_GE(times[1], 0);
    EXPECT_GT(times[2], times[1]);
  }
}

TEST_P(CudaDevice, NothingWaitsForAnEventThatWasNeverRecorded) {
  device->wait(1, 3);
  device->record(0, 5);
  device->wait(1, 4); // between numbers that are
  device->drain();
}

TEST_P(CudaDevice, DevicesWaitForEachOthersEvents) {
  auto other = GetParam().open(0, streams);
  DeviceMemory from = pinnedNumbers(large), memory = device->allocate(large);
  DeviceMemory to = other->allocatePinned(large);
  std::shared_ptr<void> event = device->makeEvent();
  device->copy(1, memory.data(), from.data(), large);
  device->recordShared(1, event.get());
  other->waitShared(2, event.get());
  event.reset(); // who waits already, waits on
  other->copy(2, to.data(), memory.data(), large);
  other->drain();
  EXPECT_EQ(std::memcmp(to.data(), from.data(), large), 0);
}

TEST_P(CudaDevice, AGraphRepeatsWhatWasCaptured) {
  DeviceMemory from = pinnedNumbers(large), to = device->allocatePinned(large);
  DeviceMemory memory = device->allocate(large);
  device->beginCapture();
  device->fill(0, memory.data(), 3, 10);
  device->record(0, 1);
  device->wait(1, 1); // stream 1 joins
  device->copy(1, memory.data() + 10, from.data() + 10, large - 10);
  device->record(1, 2);
  device->wait(0, 2); // and is joined
  device->copy(0, to.data(), memory.data(), large);
  std::unique_ptr<DeviceGraph> graph = device->endCapture();

  device->drain();
  EXPECT_EQ(contents(memory), std::vector<char>(large, 0)); // nothing ran
  for (int launch = 0; launch < 2; ++launch) {
    graph->launch();
    device->drain();
    EXPECT_EQ(std::count(to.data(), to.data() + 10, 3), 10);
    EXPECT_EQ(std::memcmp(to.data() + 10, from.data() + 10, large - 10), 0);
    std::memset(to.data(), 0, large);
  }
}

TEST_P(CudaDevice, WhatFollowsAGraphIsBehindIt) {
  DeviceMemory from = pinnedNumbers(large), to = device->allocatePinned(large);
  DeviceMemory memory = device->allocate(large);
  device->beginCapture();
  device->copy(0, memory.data(), from.data(), large);
  auto graph = device->endCapture();
  graph->launch();
  // The event is a new one: it was not recorded in the capture.
  device->record(0, 1);
  device->wait(1, 1);
  device->copy(1, to.data(), memory.data(), large);
  device->drain();
  EXPECT_EQ(std::memcmp(to.data(), from.data(), large), 0);
}

TEST_P(CudaDevice, AStreamThatIsNotJoinedEndsTheCapture) {
  DeviceMemory from = pinnedNumbers(100), memory = device->allocate(100);
  device->beginCapture();
  device->record(0, 1);
  device->wait(1, 1);
  device->copy(1, memory.data(), from.data(), 100);
  try {
    device->endCapture();
    FAIL() << "a stream was left behind";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("cudaErrorStreamCaptureUnjoined"),
              std::string::npos)
        << error.what();
  }
  // And nothing is left of it.
  device->copy(1, memory.data(), from.data(), 100);
  device->drain();
  EXPECT_EQ(std::memcmp(contents(memory).data(), from.data(), 100), 0);
}

TEST_P(CudaDevice, WhoWaitsForTheGpuEndsTheCapture) {
  device->beginCapture();
  EXPECT_THROW(device->drain(), Error);
  EXPECT_THROW(device->endCapture(), Error);
  device->drain();
}

TEST_P(CudaDevice, MemoryThatCannotBeHadIsCounted) {
  uint64_t bytes = uint64_t(1) << 50;
  try {
    device->allocate(bytes);
    FAIL() << "a pebibyte was allocated";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("are free"), std::string::npos) << text;
    EXPECT_NE(text.find("use more ranks"), std::string::npos) << text;
  }
  // And nothing is left of the error.
  EXPECT_EQ(device->allocate(1000).bytes, 1000u);
}

TEST_P(CudaDevice, AGpuThatIsNotThereIsRefusedWithTheirNumber) {
  for (int index : {-1, 1000})
    try {
      GetParam().open(index, streams);
      FAIL() << "there is a GPU " << index;
    } catch (const Error &error) {
      EXPECT_NE(std::string(error.what()).find("this process sees"),
                std::string::npos)
          << error.what();
    }
}

TEST(OpenCudaDevice, OpensOrSaysWhyNot) {
  try {
    EXPECT_TRUE(openCudaDevice(0, streams));
  } catch (const Error &error) {
    // One line, with a way to go on.
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_NE(text.find(';'), std::string::npos) << text;
  }
}

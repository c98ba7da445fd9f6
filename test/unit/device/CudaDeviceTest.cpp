// Tests that a GPU's memory, streams, events and copies do what a plan's
// commands ask of them. Without a GPU they are skipped, and say why.
#include "device/Device.h"

#include "Error.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <vector>

using namespace fsdp;

namespace {

constexpr unsigned streams = 3;
constexpr uint64_t large = uint64_t(64) << 20; // takes milliseconds to copy

class CudaDevice : public testing::Test {
protected:
  void SetUp() override {
    try {
      device = openCudaDevice(0, streams);
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
  }

  DeviceMemory pinnedNumbers(uint64_t bytes) {
    DeviceMemory memory = device->allocatePinned(bytes);
    std::iota(memory.data(), memory.data() + bytes, 0);
    return memory;
  }

  std::unique_ptr<Device> device;
};

} // namespace

TEST_F(CudaDevice, SaysWhatItIs) {
  EXPECT_NE(device->describe().find("driver for CUDA"), std::string::npos);
  EXPECT_GT(device->freeBytes(), 0u);
}

TEST_F(CudaDevice, MemoryIsAlignedAndZero) {
  DeviceMemory memory = device->allocate(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % 256, 0u);
  std::vector<char> seen(1000, 1);
  device->copy(0, seen.data(), memory.data(), 1000);
  device->drain();
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 0), 1000);
}

TEST_F(CudaDevice, CopiesThereAndBack) {
  DeviceMemory from = pinnedNumbers(1000), to = device->allocatePinned(1000);
  DeviceMemory memory = device->allocate(1000);
  device->copy(1, memory.data(), from.data(), 1000);
  device->fill(1, memory.data(), 0, 10);
  device->copy(1, to.data(), memory.data(), 1000);
  device->drain();
  EXPECT_EQ(std::count(to.data(), to.data() + 10, 0), 10);
  EXPECT_EQ(std::memcmp(to.data() + 10, from.data() + 10, 990), 0);
}

TEST_F(CudaDevice, AStreamWaitsForAnothersEvent) {
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

TEST_F(CudaDevice, MemoryThatCannotBeHadIsCounted) {
  uint64_t bytes = uint64_t(1) << 50;
  try {
    device->allocate(bytes);
    FAIL() << "a pebibyte was allocated";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_NE(text.find(std::to_string(bytes)), std::string::npos) << text;
    EXPECT_NE(text.find("are free"), std::string::npos) << text;
  }
  // And nothing is left of the error.
  EXPECT_EQ(device->allocate(1000).bytes, 1000u);
}

TEST_F(CudaDevice, AGpuThatIsNotThereIsRefusedWithTheirNumber) {
  try {
    openCudaDevice(1000, streams);
    FAIL() << "there are a thousand GPUs";
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

// Tests that a Device says what is wrong with a host and its GPUs, and that the
// imitated GPUs, on which that is seen, are as strict as real ones.
#include "gpu/imitation/ImitatedCuda.h"
#include "gpu/imitation/ImitatedDevice.h"

#include "Error.h"
#include "ErrorKind.h"

#include <atomic>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>

using namespace fsdp;
using namespace fsdp::imitation;

namespace {

/// What is thrown where GPU `index` of such a host is opened.
std::string refusal(const Host &host, int index = 0) {
  UseHost use(host);
  try {
    openDevice(index, 2);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

/// Of the headers that this was built with.
std::string versionText() {
  return std::to_string(CUDART_VERSION / 1000) + "." +
         std::to_string(CUDART_VERSION % 1000 / 10);
}

template <typename Action> std::string errorOf(Action action) {
  try {
    action();
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string &text, const std::string &part) {
  return text.find(part) != std::string::npos;
}

cudaStream_t streamOf(Device &device, unsigned stream) {
  return static_cast<cudaStream_t>(device.stream(stream));
}

} // namespace

TEST(CudaHost, WithoutADriverSaysSo) {
  Host host;
  host.driver = 0;
  EXPECT_EQ(refusal(host),
            "the plan is for GPUs, and this machine has no NVIDIA driver; "
            "compile it for device=cpu, or run it where there is one");
}

TEST(CudaHost, WithAnOldDriverSaysWhichIsNeeded) {
  Host host;
  host.driver = 11040;
  EXPECT_EQ(refusal(host),
            "the NVIDIA driver is for CUDA 11.4, PyTorch needs " +
                versionText() + "; update the driver");
}

TEST(CudaHost, WithANewerDriverIsFine) {
  Host host;
  host.driver += 20;
  EXPECT_EQ(refusal(host), "");
}

TEST(CudaHost, WithoutAGpuSaysWhereToLook) {
  Host host;
  host.gpus = 0;
  EXPECT_EQ(refusal(host),
            "the plan is for GPUs, and this machine shows none: no "
            "CUDA-capable device is detected; see nvidia-smi and "
            "CUDA_VISIBLE_DEVICES");
}

TEST(CudaHost, SaysHowManyGpusItHas) {
  Host host;
  host.gpus = 2;
  EXPECT_EQ(refusal(host, 1), "");
  EXPECT_EQ(refusal(host, 2), "there is no GPU 2: this process sees 2; start "
                              "at most as many ranks on this host");
  UseHost use(host);
  EXPECT_EQ(test::identifierThrownBy([] { openDevice(2, 2); }), "FSDP-E1003");
}

TEST(CudaHost, TellsItsGpusApart) {
  Host host;
  host.gpus = 2;
  UseHost use(host);
  auto first = openDevice(0, 1), second = openDevice(1, 1);
  EXPECT_NE(first->identity(), second->identity());
  EXPECT_EQ(second->index(), 1);
  EXPECT_EQ(second->describe(),
            "imitated GPU, driver for CUDA " + versionText());
}

TEST(CudaMemory, IsRefusedWithWhatIsFreeAndAWayOut) {
  Host host;
  host.bytes = 1000;
  UseHost use(host);
  auto device = openDevice(0, 1);
  DeviceMemory some = device->allocate(600);
  EXPECT_EQ(device->freeBytes(), 400u);
  EXPECT_EQ(errorOf([&] { device->allocate(401); }),
            "cannot allocate 401 bytes of device memory, of which 400 are free "
            "(cudaErrorMemoryAllocation); use more ranks, a smaller batch, "
            "remat=full or offload=all");
  some = {};
  EXPECT_EQ(device->freeBytes(), 1000u);
}

TEST(CudaMemory, ThatCannotBePinnedIsCounted) {
  auto device = openDevice(0, 1);
  UseHost use(Host{});
  failCall("cudaHostAlloc", 1, cudaErrorMemoryAllocation);
  EXPECT_EQ(errorOf([&] { device->allocatePinned(4096); }),
            "cannot pin 4096 bytes of host memory (cudaErrorMemoryAllocation); "
            "use pin-memory=false");
}

TEST(CudaMemory, IsAllGivenBack) {
  uint64_t before = bytesInUse();
  {
    auto device = openDevice(0, 2);
    DeviceMemory a = device->allocate(100), b = device->allocatePinned(50);
    EXPECT_EQ(bytesInUse(), before + 150);
  }
  EXPECT_EQ(bytesInUse(), before);
}

TEST(CudaMemory, RowsFurtherApartThanAPitchAreCopiedOneByOne) {
  Host host;
  host.pitch = 100;
  UseHost use(host);
  auto device = openDevice(0, 2);
  DeviceMemory from = device->allocatePinned(600), to = device->allocate(600);
  for (int row = 0; row < 3; ++row)
    std::memset(from.data() + row * 200, 'a' + row, 200);
  device->copyRows(1, to.data(), 200, from.data(), 200, 150, 3);
  device->fillRows(1, to.data() + 100, 200, 'x', 50, 3);
  std::string seen(600, '-');
  device->copy(1, seen.data(), to.data(), 600);
  device->drain();
  std::string expected;
  for (char row : {'a', 'b', 'c'})
    expected +=
        std::string(100, row) + std::string(50, 'x') + std::string(50, '\0');
  EXPECT_EQ(seen, expected);
}

TEST(CudaErrors, ComeOnceAndLeaveNothing) {
  UseHost use(Host{});
  auto device = openDevice(0, 2);
  failCall("cudaEventRecord", 2, cudaErrorInvalidResourceHandle);
  device->record(1, 0);
  EXPECT_EQ(errorOf([&] { device->record(1, 0); }),
            "cannot record an event: invalid resource handle "
            "(cudaErrorInvalidResourceHandle)");
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  device->record(1, 0);
  device->drain();
}

TEST(CudaErrors, OfWhatWasLaunchedComeWithLaterCalls) {
  UseHost use(Host{});
  auto device = openDevice(0, 2);
  enqueue(streamOf(*device, 1), [] { throw cudaErrorLaunchFailure; });
  for (int i = 0; i < 2; ++i) // the GPU stays lost
    EXPECT_TRUE(
        contains(errorOf([&] { device->drain(); }), "cudaErrorLaunchFailure"));
}

TEST(CudaErrors, MemoryFreedUnderACopyIsAnIllegalAddress) {
  UseHost use(Host{});
  auto device = openDevice(0, 2);
  DeviceMemory from = device->allocate(100), to = device->allocate(100);
  EXPECT_TRUE(contains(
      errorOf([&] { device->copy(1, to.data() + 1, from.data(), 100); }),
      "cudaErrorInvalidValue")); // one byte too far
  device->beginCapture();
  device->copy(0, to.data(), from.data(), 100);
  auto graph = device->endCapture();
  from = {};
  graph->launch();
  EXPECT_TRUE(
      contains(errorOf([&] { device->drain(); }), "cudaErrorIllegalAddress"));
}

TEST(ImitatedStreams, WaitForTheMarkThatAnEventHadThen) {
  auto device = openDevice(0, 3);
  std::atomic<bool> go{false};
  std::atomic<int> ran{0};
  auto gate = [&] {
    while (!go)
      std::this_thread::yield();
  };
  device->record(1, 0);
  device->wait(2, 0); // behind nothing
  enqueue(streamOf(*device, 1), gate);
  device->record(1, 0); // which the wait above does not see
  enqueue(streamOf(*device, 2), [&] { ++ran; });
  while (ran == 0)
    std::this_thread::yield();
  EXPECT_FALSE(device->isOver(0));
  device->wait(2, 0);
  enqueue(streamOf(*device, 2), [&] { ran += go ? 10 : 100; });
  go = true;
  device->drain();
  EXPECT_EQ(ran, 11);
}

TEST(ImitatedStreams, NumberZeroRunsInTheCaller) {
  auto device = openDevice(0, 2);
  std::thread::id here, there;
  enqueue(streamOf(*device, 0), [&] { here = std::this_thread::get_id(); });
  enqueue(streamOf(*device, 1), [&] { there = std::this_thread::get_id(); });
  EXPECT_EQ(here, std::this_thread::get_id());
  device->drain();
  EXPECT_NE(there, std::this_thread::get_id());
}

TEST(ImitatedStreams, RunInTheCallerForAWhile) {
  auto device = openDevice(0, 2);
  std::atomic<bool> before{false};
  std::thread::id where;
  enqueue(streamOf(*device, 1), [&] { before = true; });
  {
    InCaller use(streamOf(*device, 1));
    EXPECT_TRUE(before); // what was on it is over
    enqueue(streamOf(*device, 1), [&] { where = std::this_thread::get_id(); });
    EXPECT_EQ(where, std::this_thread::get_id());
  }
  enqueue(streamOf(*device, 1), [&] { where = std::this_thread::get_id(); });
  device->drain();
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST(ImitatedGraphs, RunFunctionsWithEveryLaunchAndBesideEachOther) {
  auto device = openDevice(0, 2);
  std::atomic<int> met{0};
  auto meet = [&] { // both must run at once
    int target = met / 2 * 2 + 2;
    for (++met; met < target;)
      std::this_thread::yield();
  };
  device->beginCapture();
  device->record(0, 0);
  device->wait(1, 0);
  enqueue(streamOf(*device, 1), meet);
  enqueue(streamOf(*device, 0), meet);
  device->record(1, 1);
  device->wait(0, 1);
  auto graph = device->endCapture();
  EXPECT_EQ(met, 0);
  graph->launch();
  EXPECT_EQ(met, 2);
}

TEST(ImitatedGraphs, RefuseWhatCudaRefuses) {
  auto device = openDevice(0, 3), other = openDevice(0, 2);
  DeviceMemory memory = device->allocate(10);
  char host[10] = {};
  device->record(1, 5);
  struct {
    const char *error;
    std::function<void()> action;
  } const cases[] = {
      {"cudaErrorStreamCaptureUnsupported", [&] { device->drain(); }},
      {"cudaErrorStreamCaptureUnsupported", [&] { device->allocatePinned(1); }},
      {"cudaErrorStreamCaptureUnsupported", [&] { device->isOver(5); }},
      {"cudaErrorStreamCaptureUnsupported",
       [&] { device->copy(0, memory.data(), host, 10); }},
      {"cudaErrorStreamCaptureIsolation", [&] { device->wait(0, 5); }},
      {"cudaErrorStreamCaptureMerge",
       [&] {
         std::shared_ptr<void> event = other->makeEvent();
         other->beginCapture();
         other->recordShared(0, event.get());
         std::string error =
             errorOf([&] { device->waitShared(0, event.get()); });
         EXPECT_EQ(test::identifierThrownBy([&] { other->endCapture(); }),
                   "FSDP-E1005");
         throw Error(E::Unexpected, error);
       }},
      {"cudaErrorIllegalState", [&] { device->beginCapture(); }},
  };
  for (auto &[error, action] : cases) {
    device->beginCapture();
    std::string text = errorOf(action);
    EXPECT_TRUE(contains(text, error)) << error << ": " << text;
    bool over = contains(error, "IllegalState");
    EXPECT_EQ(errorOf([&] { device->endCapture(); }) == "", over) << error;
  }
  // An event of a capture belongs to it, also when that is over.
  device->beginCapture();
  device->record(0, 6);
  device->endCapture();
  EXPECT_TRUE(
      contains(errorOf([&] { device->wait(1, 6); }), "cudaErrorCapturedEvent"));
  device->record(0, 6);
  device->wait(1, 6);
  device->drain();
}

TEST(ImitatedGraphs, LeaveOtherThreadsAlone) {
  auto device = openDevice(0, 2);
  device->beginCapture();
  std::thread([] {
    auto other = openDevice(0, 2);
    EXPECT_EQ(other->allocate(10).bytes, 10u);
    other->drain();
  }).join();
  EXPECT_NE(device->endCapture(), nullptr);
}

TEST(ImitatedGraphs, EndWithTheirDevice) {
  auto device = openDevice(0, 2);
  device->beginCapture();
  device.reset();
  EXPECT_EQ(openDevice(0, 2)->allocate(10).bytes, 10u);
}

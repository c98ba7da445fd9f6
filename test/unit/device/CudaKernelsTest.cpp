// Tests that PyTorch's CUDA kernels run on a plan's streams and draw a plan's
// numbers. Without a GPU those are skipped, and say why.
#include "device/Device.h"
#include "device/Kernels.h"

#include "Error.h"
#include "TensorFunctions.h"
#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <set>
#include <sstream>

using namespace fsdp;

namespace {

const MemoryHooks noHooks = {[](size_t) { return c10::DataPtr(); },
                             [](void *) { return false; }};

/// A GPU that is not there.
class NoDevice final : public Device {
public:
  std::string describe() const override { return "none"; }
  std::string identity() const override { return "none"; }
  int index() const override { return 100; }
  uint64_t freeBytes() const override { return 0; }
  void *stream(unsigned) const override { return nullptr; }
  DeviceMemory allocate(uint64_t) override { return {}; }
  DeviceMemory allocatePinned(uint64_t) override { return {}; }
  void copyRows(unsigned, void *, uint64_t, const void *, uint64_t, uint64_t,
                uint64_t) override {}
  void fillRows(unsigned, void *, uint64_t, unsigned char, uint64_t,
                uint64_t) override {}
  void record(unsigned, unsigned) override {}
  void wait(unsigned, unsigned) override {}
  std::shared_ptr<void> makeEvent() override { return nullptr; }
  void recordShared(unsigned, void *) override {}
  void waitShared(unsigned, void *) override {}
  bool isOver(unsigned) override { return true; }
  size_t markTime(unsigned) override { return 0; }
  std::vector<int64_t> takeTimes() override { return {}; }
  void drain() override {}
  void beginCapture() override {}
  std::unique_ptr<DeviceGraph> endCapture() override { return nullptr; }
};

/// By file name, the paths from which this process has loaded libraries.
std::map<std::string, std::set<std::string>> loadedLibraries() {
  std::map<std::string, std::set<std::string>> paths;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    size_t path = line.find('/'), name = line.rfind('/');
    if (path != std::string::npos && line.find(".so") != std::string::npos)
      paths[line.substr(name + 1)].insert(line.substr(path));
  }
  return paths;
}

class CudaKernels : public testing::Test {
protected:
  void SetUp() override {
    try {
      device = openCudaDevice(0, 2);
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
    kernels = openCudaKernels(*device, noHooks);
    entered = kernels->enter();
  }

  at::Tensor draw(const at::Generator &generator) {
    return at::rand({1000}, generator, at::TensorOptions(kernels->device()));
  }

  std::unique_ptr<Device> device;
  std::unique_ptr<Kernels> kernels;
  std::shared_ptr<void> entered;
};

} // namespace

TEST(OpenCudaKernels, RefusesAGpuThatPyTorchCannotUse) {
  NoDevice device;
  try {
    openCudaKernels(device, noHooks);
    FAIL() << "there are a hundred GPUs";
  } catch (const Error &error) {
    std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    EXPECT_NE(text.find("PyTorch cannot use GPU 100: "), std::string::npos)
        << text;
    EXPECT_NE(text.find(';'), std::string::npos) << text;
  }
}

TEST(OpenCudaKernels, LoadsOneCopyOfEachLibrary) {
  NoDevice device;
  EXPECT_THROW(openCudaKernels(device, noHooks), Error);
  for (const auto &[name, paths] : loadedLibraries())
    EXPECT_EQ(paths.size(), 1u) << name;
}

TEST_F(CudaKernels, RunOnTheStreamInUse) {
  uint64_t bytes = uint64_t(64) << 20; // takes milliseconds to copy
  DeviceMemory there = device->allocatePinned(bytes);
  std::fill_n(there.data(), bytes, 1);
  at::Tensor memory = at::zeros(
      {int64_t(bytes)}, at::TensorOptions(kernels->device()).dtype(at::kByte));
  at::Tensor sum;
  device->drain();
  {
    UseStream other(*kernels, 1);
    device->copy(1, memory.data_ptr(), there.data(), bytes);
    sum = memory.sum();
  }
  device->drain();
  EXPECT_EQ(sum.item<int64_t>(), int64_t(bytes));
}

TEST_F(CudaKernels, AGeneratorDrawsTheSameAfterTheSameSeed) {
  at::Generator generator = kernels->makeGenerator(3);
  at::Tensor first = draw(generator), second = draw(generator);
  EXPECT_FALSE(at::equal(first, second));
  generator.set_current_seed(3);
  EXPECT_TRUE(at::equal(first, draw(generator)));
}

TEST_F(CudaKernels, AGraphDrawsFromTheSeedThatMemoryHoldsWhenItRuns) {
  at::Generator generator = kernels->makeGenerator(3);
  at::Tensor three = draw(generator);
  generator.set_current_seed(4);
  at::Tensor four = draw(generator);

  uint64_t seeds[] = {3, 4};
  DeviceMemory seed = device->allocate(sizeof(uint64_t));
  at::Tensor drawn = at::empty_like(three);
  device->beginCapture();
  kernels->seedFromMemory(generator, seed.data());
  drawn.uniform_(0, 1, generator);
  kernels->seedFromMemory(generator, nullptr);
  std::unique_ptr<DeviceGraph> graph = device->endCapture();
  for (int i : {0, 1, 0}) {
    device->copy(0, seed.data(), &seeds[i], sizeof(uint64_t));
    graph->launch();
    device->drain();
    EXPECT_TRUE(at::equal(drawn, i == 0 ? three : four));
  }
  generator.set_current_seed(4);
  EXPECT_TRUE(at::equal(four, draw(generator)));
}

TEST_F(CudaKernels, OperatorsThatWaitForTheDeviceAreCounted) {
  at::Tensor x = draw(kernels->makeGenerator(3));
  uint64_t before = kernels->waits();
  at::Tensor mask = x.gt(0.5);
  at::where(mask, x, 0);
  EXPECT_EQ(kernels->waits(), before);
  x.index_put_({mask}, at::zeros({}, x.options())); // counts the mask's ones
  EXPECT_GT(kernels->waits(), before);
}

TEST_F(CudaKernels, MatrixProductsKeepNoMemory) {
  kernels->releaseCached(); // of other tests
  uint64_t kept = kernels->keptBytes();
  EXPECT_GT(kept, 0u) << "workspaces of cuBLAS";
  {
    at::Tensor a = at::ones({64, 64}, at::TensorOptions(kernels->device()));
    at::addmm(at::ones({64}, a.options()), a, a);
    device->drain();
  }
  kernels->releaseCached();
  EXPECT_EQ(kernels->keptBytes(), kept);
}

TEST_F(CudaKernels, CrossEntropyIsTheHosts) {
  registerOperators();
  auto find = [](const char *name) {
    return c10::Dispatcher::singleton().findSchemaOrThrow(name, "");
  };
  auto forward =
      find("fsdp_mlir::cross_entropy").typed<decltype(crossEntropy)>();
  auto backward = find("fsdp_mlir::cross_entropy_backward")
                      .typed<decltype(crossEntropyBackward)>();
  constexpr int64_t rows = 300, ignored = -100;
  for (auto type : {at::kFloat, at::kBFloat16, at::kHalf})
    // Rows of whole vectors and others; fewer than a block's threads, and more.
    for (int64_t classes : {1, 7, 64, 1003, 50304})
      for (int64_t reduction : {1, 2}) {
        at::Tensor logits = at::rand({rows, classes}).mul(8).sub(4).to(type);
        if (classes > 4)
          logits[2][3] = -HUGE_VALF;
        at::Tensor target = at::remainder(at::arange(rows, at::kLong), classes);
        target[4] = ignored;
        at::Tensor one = at::full({}, 2.0, at::kFloat);
        auto [loss, total, sums] =
            forward.call(logits, target, reduction, ignored);
        at::Tensor gradients =
            backward.call(one, logits, target, reduction, ignored, total, sums);
        auto to = [&](const at::Tensor &x) { return x.to(kernels->device()); };
        auto [ownLoss, ownTotal, ownSums] =
            forward.call(to(logits), to(target), reduction, ignored);
        at::Tensor ownGradients =
            backward.call(to(one), to(logits), to(target), reduction, ignored,
                          ownTotal, ownSums);
        auto near = [](const at::Tensor &found, const at::Tensor &expected,
                       double relative) {
          return at::allclose(found.cpu().to(at::kFloat),
                              expected.to(at::kFloat), relative, 1e-6);
        };
        double rounding = type == at::kFloat ? 1e-5 : 0.01;
        EXPECT_TRUE(near(ownLoss, loss, 1e-5)) << type << " " << classes;
        EXPECT_TRUE(near(ownTotal, total, 0)) << type << " " << classes;
        EXPECT_TRUE(near(ownSums, sums, 1e-5)) << type << " " << classes;
        EXPECT_TRUE(near(ownGradients, gradients, rounding))
            << type << " " << classes;
      }
}

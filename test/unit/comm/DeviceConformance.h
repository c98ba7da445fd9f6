// What a device communicator must do, whichever it is: the suite's ranks and
// memory. Each file of tests derives a fixture and instantiates it for
// everyDeviceCommunicator().
#ifndef FSDP_TEST_UNIT_COMM_DEVICECONFORMANCE_H
#define FSDP_TEST_UNIT_COMM_DEVICECONFORMANCE_H

#include "Conformance.h"
#include "Error.h"
#include "comm/DeviceCommunicator.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "drivers/cuda/NcclCommunicator.h"
#include "gpu/imitation/ImitatedCuda.h"
#include "gpu/imitation/ImitatedDevice.h"
#include "gpu/imitation/ImitatedKernels.h"

namespace fsdp::test {

constexpr unsigned deviceStreams = 3;

/// What one rank has. Destroyed from the last one on.
struct DeviceRank {
  int rank;
  std::unique_ptr<Device> device;
  std::unique_ptr<Kernels> kernels;
  std::unique_ptr<Communicator> control; // of NCCL's ranks
  std::unique_ptr<DeviceCommunicator> communicator;
};

/// Called by every rank's thread, once.
using ConnectDevice = std::function<DeviceRank(int rank)>;

/// A kind of device communicator, and for how many ranks on how many GPUs.
struct DeviceCase {
  const char *kind;
  int ranks, gpus;
  /// A new one for each test, shared by its ranks.
  ConnectDevice (*connector)(int ranks, int gpus);
  /// Its numbers are a Communicator's to the bit. Else it is NCCL, which adds
  /// in another order and divides first.
  bool ordered;
  /// On a real GPU.
  bool real = false;

  bool reduces(plan::DType dtype, plan::ReduceOp op) const {
    if (!plan::isReducible(dtype, op))
      return false;
    return ordered ||
           (dtype != plan::DType::Int16 &&
            (op == plan::ReduceOp::Sum || (dtype != plan::DType::Float16 &&
                                           dtype != plan::DType::BFloat16)));
  }
  std::string name() const {
    return kind + std::to_string(ranks) + "On" + std::to_string(gpus);
  }
};

inline ConnectDevice localDevices(int ranks, int gpus) {
  auto all = std::make_shared<LocalRanks>(ranks);
  return [=](int rank) {
    DeviceRank result{rank, imitation::openDevice(rank % gpus, deviceStreams),
                      nullptr, nullptr, nullptr};
    result.kernels = imitation::openKernels(*result.device);
    result.communicator = createLocalDeviceCommunicator(
        all, rank, *result.device, *result.kernels);
    return result;
  };
}

/// Ranks on this host's GPUs, with PyTorch's CUDA kernels.
inline ConnectDevice realLocal(int ranks, int) {
  auto all = std::make_shared<LocalRanks>(ranks);
  return [=](int rank) {
    DeviceRank result{rank,
                      openCudaDevice(rank % countCudaDevices(), deviceStreams),
                      nullptr, nullptr, nullptr};
    // PyTorch's own allocator serves all.
    static const MemoryHooks none = {[](size_t) { return c10::DataPtr(); },
                                     [](void *) { return false; }};
    result.kernels = openCudaKernels(*result.device, none);
    result.communicator = createLocalDeviceCommunicator(
        all, rank, *result.device, *result.kernels);
    return result;
  };
}

/// Ranks over an imitated NCCL, each with a GPU of its own.
template <bool single> ConnectDevice ncclDevices(int ranks, int) {
  Connect control = connector({/*gloo=*/false, /*throttled=*/false, ranks});
  return [=](int rank) {
    DeviceRank result{rank, imitation::openDevice(rank, deviceStreams), nullptr,
                      control(rank), nullptr};
    result.communicator =
        imitation::connectNccl(*result.device, *result.control, {single});
    return result;
  };
}

/// A rank over NCCL itself.
inline ConnectDevice realNccl(int ranks, int) {
  Connect control = connector({/*gloo=*/false, /*throttled=*/false, ranks});
  return [=](int rank) {
    DeviceRank result{rank, openCudaDevice(rank, deviceStreams), nullptr,
                      control(rank), nullptr};
    result.communicator = connectNccl(*result.device, *result.control, {});
    return result;
  };
}

inline std::vector<DeviceCase> everyDeviceCommunicator() {
  return {{"Local", 1, 1, localDevices, true},
          {"Local", 2, 1, localDevices, true},
          {"Local", 3, 1, localDevices, true},
          {"Local", 3, 2, localDevices, true},
          {"Nccl", 1, 1, ncclDevices<false>, false},
          {"Nccl", 2, 2, ncclDevices<false>, false},
          {"Nccl", 3, 3, ncclDevices<false>, false},
          {"SingleNccl", 2, 2, ncclDevices<true>, false},
          {"SingleNccl", 3, 3, ncclDevices<true>, false},
          {"RealLocal", 2, 1, realLocal, true, /*real=*/true},
          {"RealNccl", 1, 1, realNccl, false, /*real=*/true}};
}

inline std::string
nameOfDevice(const testing::TestParamInfo<DeviceCase> &info) {
  return info.param.name();
}

using DeviceBody = std::function<void(DeviceRank &)>;

/// Runs `body` on every rank, each a thread; a rank that throws aborts its
/// communicator. Returns what each rank threw.
inline std::vector<std::string>
onDevices(int ranks, const ConnectDevice &connect, const DeviceBody &body) {
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      DeviceRank rank;
      try {
        rank = connect(r);
        body(rank);
        rank.device->drain();
        rank.communicator->check();
      } catch (const std::exception &error) {
        errors[r] = error.what();
        if (rank.communicator)
          rank.communicator->abort();
        if (rank.control)
          rank.control->abort(error.what());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

/// A rank's tensors, in memory of its communicator's or of the device's.
class DeviceTensors {
public:
  DeviceTensors(DeviceRank &rank, bool registered) : device(*rank.device) {
    constexpr uint64_t bytes = 4 << 20;
    block = registered ? rank.communicator->allocate(bytes)
                       : device.allocate(bytes);
  }
  /// All memory is free again.
  void clear() { used = 0; }
  char *empty(int64_t count, plan::DType dtype) {
    char *begin = block.data() + used;
    used += (count * plan::dtypeBytes(dtype) + 255) / 256 * 256;
    EXPECT_LE(used, block.bytes);
    return begin;
  }
  char *zeros(int64_t count, plan::DType dtype) {
    char *to = empty(count, dtype);
    device.fill(0, to, 0, count * plan::dtypeBytes(dtype));
    device.drain();
    return to;
  }
  char *put(const at::Tensor &values, plan::DType dtype) {
    char *to = empty(values.numel(), dtype);
    device.copy(0, to, values.const_data_ptr(), values.nbytes());
    device.drain();
    return to;
  }
  /// Waits for everything that was launched.
  at::Tensor get(const char *from, int64_t count, plan::DType dtype) {
    device.drain();
    at::Tensor values = at::empty({count}, toScalarType(dtype));
    device.copy(0, values.data_ptr(), from, values.nbytes());
    device.drain();
    return values;
  }

private:
  Device &device;
  DeviceMemory block;
  uint64_t used = 0;
};

class DeviceConformance : public testing::TestWithParam<DeviceCase> {
protected:
  void SetUp() override {
    if (!GetParam().real)
      return;
    try {
      openCudaDevice(0, 1);
    } catch (const Error &error) {
      GTEST_SKIP() << error.what();
    }
  }

  int ranks() const { return GetParam().ranks; }

  void everywhere(const DeviceBody &body) {
    imitation::Host host;
    host.gpus = GetParam().gpus;
    imitation::UseHost use(host);
    auto connect = GetParam().connector(ranks(), GetParam().gpus);
    for (const std::string &error : onDevices(ranks(), connect, body))
      EXPECT_EQ(error, "");
  }

  /// Numbers whose sum depends on the order where that is the ranks', else
  /// small multiples of three: every dtype has their sums and their thirds.
  at::Tensor numbers(int rank, int64_t count, plan::DType dtype) const {
    return GetParam().ordered
               ? contribution(rank, count, dtype)
               : (at::remainder(at::arange(count) * 31 + rank * 50, 21) * 3)
                     .to(toScalarType(dtype));
  }
  /// The sum of the group's numbers.
  at::Tensor sumOf(plan::RankGroup group, int64_t count, plan::DType dtype,
                   double divisor = 1) const {
    at::Tensor sum = numbers(group[0], count, dtype);
    for (uint32_t i = 1; i < group.size; ++i)
      sum = at::add(sum, numbers(group[i], count, dtype));
    return divisor == 1 ? sum : at::div(sum, divisor);
  }
  at::Tensor concatenationOf(plan::RankGroup group, int64_t count,
                             plan::DType dtype) const {
    std::vector<at::Tensor> all;
    for (uint32_t i = 0; i < group.size; ++i)
      all.push_back(numbers(group[i], count, dtype));
    return at::cat(all);
  }
  plan::RankGroup everybody() const {
    return {0, 1, static_cast<uint32_t>(ranks())};
  }
};

inline void launch(DeviceRank &rank, const Transfer &transfer,
                   unsigned stream) {
  rank.communicator->prepare(transfer);
  rank.communicator->launch(transfer, stream);
}

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_COMM_DEVICECONFORMANCE_H

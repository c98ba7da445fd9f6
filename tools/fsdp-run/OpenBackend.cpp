#include "OpenBackend.h"

#include "Error.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "drivers/cuda/NcclCommunicator.h"
#include "executor/DeviceBackend.h"
#include "executor/HostBackend.h"
#include "executor/PlacingAllocator.h"

#include <algorithm>
#include <iterator>

namespace fsdp {

static bool isForGpus(const plan::PlanT &plan) {
  return plan.device == plan::DeviceKind::Cuda;
}

/// Flags that mean something for one kind of device alone must not be passed
/// over in silence.
static void checkFlags(bool onGpus, const CommandLine &line) {
  const LaunchOptions &launch = line.launch;
  const TransportInfo &comm =
      *std::find_if(std::begin(transports), std::end(transports),
                    [&](const TransportInfo &info) {
                      return info.transport == launch.transport;
                    });
  const struct {
    std::string flag;
    bool given, isForGpus;
  } flags[] = {
      {std::string("--comm ") + comm.name, comm.device.has_value(),
       comm.device == plan::DeviceKind::Cuda},
      {"--single-communicator", launch.singleCommunicator, true},
      {"--throttle", launch.throttle.has_value(), false},
      {"--host-streams threads", launch.hostStreams == HostStreamKind::Threads,
       false},
      {"--cuda-graph", line.run.graph, true},
      {"--poison", line.run.poison, false},
  };
  for (const auto &[flag, given, isForGpus] : flags)
    if (given && isForGpus != onGpus)
      throw Error(E::FlagAndPlan,
                  flag + " is for " + (isForGpus ? "GPUs" : "CPUs") +
                      ", and the plan is for " + (onGpus ? "GPUs" : "CPUs") +
                      "; drop it, or compile the plan for device=" +
                      (isForGpus ? "cuda" : "cpu"));
}

void checkDevice(const plan::PlanT &plan, const CommandLine &line,
                 const Transports &transports, int localRanks) {
  bool onGpus = isForGpus(plan);
  checkFlags(onGpus, line);
  if (!onGpus)
    return;
  int gpus = countCudaDevices();
  if (transports.devices == DeviceTransport::Nccl && localRanks > gpus)
    throw Error(
        E::GpuPerRank,
        std::to_string(localRanks) +
            " ranks are to run on this host, "
            "which shows " +
            std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
            "; start as many, or let ranks share them with --threads and "
            "without --comm nccl");
}

/// A rank's GPU. A launcher may show each of its processes one alone.
static int gpuOf(const LocalPlace &place) {
  int gpus = countCudaDevices();
  if (!place.threads && gpus > 1 && place.localRank >= gpus)
    throw Error(E::GpuPerRank,
                "rank " + std::to_string(place.localRank) +
                    " of this host has no GPU: its process sees " +
                    std::to_string(gpus) + "; start as many ranks on it");
  return place.localRank % gpus;
}

OpenedBackend openBackend(const plan::PlanT &plan, Communicator &communicator,
                          const LaunchOptions &launch,
                          const Transports &transports,
                          const LocalPlace &place) {
  if (!isForGpus(plan))
    return {std::make_unique<HostBackend>(communicator, launch.hostStreams),
            communicator.transport(), ""};
  auto device = openCudaDevice(gpuOf(place), std::size(plan::streamNames));
  auto kernels = openCudaKernels(*device, gpuMemoryHooks);
  setDefaultGpuAllocator(kernels->allocator());
  auto between =
      transports.devices == DeviceTransport::Copies
          ? createLocalDeviceCommunicator(place.threads, communicator.rank(),
                                          *device, *kernels,
                                          communicator.watch())
          : connectNccl(*device, communicator, {launch.singleCommunicator});
  std::string transport = between->transport();
  std::string reason = "on " + device->describe();
  return {std::make_unique<DeviceBackend>(communicator.rank(),
                                          std::move(device), std::move(kernels),
                                          std::move(between)),
          transport, reason};
}

} // namespace fsdp

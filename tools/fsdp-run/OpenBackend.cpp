#include "OpenBackend.h"

#include "Error.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "comm/NcclCommunicator.h"
#include "executor/DeviceBackend.h"
#include "executor/HostBackend.h"
#include "executor/PlacingAllocator.h"

namespace fsdp {

static bool isForGpus(const plan::PlanT &plan) {
  return plan.device == plan::DeviceKind::Cuda;
}

void checkDevice(const plan::PlanT &plan, const CommandLine &line,
                 int localRanks) {
  const LaunchOptions &launch = line.launch;
  Transport transport = launch.comm.transport;
  if (!isForGpus(plan)) {
    if (transport == Transport::Nccl)
      throw Error("--comm nccl is for GPUs, and the plan is for CPUs; drop it, "
                  "or compile the plan for device=cuda");
    if (line.run.graph)
      throw Error(
          "--cuda-graph is for GPUs, and the plan is for CPUs; drop it, "
          "or compile the plan for device=cuda");
    return;
  }
  if (transport != Transport::Auto && transport != Transport::Nccl)
    throw Error("the plan is for GPUs, whose memory --comm shm and gloo do not "
                "reach; drop --comm, or compile the plan for device=cpu");
  if (launch.comm.throttle)
    throw Error("--throttle imitates a network between CPUs, and the plan is "
                "for GPUs; drop it, or compile the plan for device=cpu");
  int gpus = countCudaDevices();
  if (!launch.threads && localRanks > gpus)
    throw Error(std::to_string(localRanks) +
                " ranks are to run on this host, "
                "which shows " +
                std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                "; start as many, or let ranks share them with --threads");
}

/// A rank's GPU. A launcher may show each of its processes one alone.
static int gpuOf(const LocalPlace &place) {
  int gpus = countCudaDevices();
  if (!place.threads && gpus > 1 && place.localRank >= gpus)
    throw Error("rank " + std::to_string(place.localRank) +
                " of this host has no GPU: its process sees " +
                std::to_string(gpus) + "; start as many ranks on it");
  return place.localRank % gpus;
}

OpenedBackend openBackend(const plan::PlanT &plan, Communicator &communicator,
                          const LaunchOptions &launch,
                          const LocalPlace &place) {
  if (!isForGpus(plan))
    return {std::make_unique<HostBackend>(communicator, launch.hostStreams),
            communicator.transport(), ""};
  auto device = openCudaDevice(gpuOf(place), std::size(plan::streamNames));
  auto kernels = openCudaKernels(*device, gpuMemoryHooks);
  setDefaultGpuAllocator(kernels->allocator());
  // Alone or not, ranks that are threads need no NCCL to reach each other.
  bool shares = place.threads && launch.comm.transport == Transport::Auto;
  auto between =
      shares ? createLocalDeviceCommunicator(place.threads, communicator.rank(),
                                             *device, *kernels)
             : connectNccl(*device, communicator, {launch.singleCommunicator});
  std::string transport = between->transport();
  std::string reason = "on " + device->describe();
  return {std::make_unique<DeviceBackend>(communicator.rank(),
                                          std::move(device), std::move(kernels),
                                          std::move(between)),
          transport, reason};
}

} // namespace fsdp

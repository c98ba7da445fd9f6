#include "session/OpenBackend.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "comm/LocalDeviceCommunicator.h"
#include "comm/LocalRanks.h"
#include "drivers/cuda/NcclCommunicator.h"
#include "executor/DeviceBackend.h"
#include "executor/HostBackend.h"
#include "executor/PlacingAllocator.h"
#include "plan/Names.h"

#include <algorithm>
#include <iterator>

namespace fsdp {

DeviceFlag transportFlag(const std::string &name, Transport asked) {
  const TransportInfo &info = *std::find_if(
      std::begin(transports), std::end(transports),
      [&](const TransportInfo &info) { return info.transport == asked; });
  return {name + info.name, info.device.has_value(),
          info.device.value_or(plan::DeviceKind::Cpu)};
}

static const char *devicesOf(plan::DeviceKind kind) {
  return kind == plan::DeviceKind::Cuda ? "GPUs" : "CPUs";
}

void checkFlags(plan::DeviceKind device, const std::vector<DeviceFlag> &flags) {
  for (const DeviceFlag &flag : flags)
    if (flag.given && flag.device != device)
      throw Error(E::FlagAndPlan,
                  flag.name + " is for " + devicesOf(flag.device) +
                      ", and the plan is for " + devicesOf(device) +
                      "; drop it, or compile the plan for device=" +
                      plan::nameOf(flag.device));
}

void checkGpus(plan::DeviceKind device, const Transports &transports,
               int localRanks) {
  if (device != plan::DeviceKind::Cuda)
    return;
  int gpus = countCudaDevices();
  if (transports.devices == DeviceTransport::Nccl && localRanks > gpus)
    throw Error(E::GpuPerRank,
                std::to_string(localRanks) +
                    " ranks are to run on this host, "
                    "which shows " +
                    std::to_string(gpus) + (gpus == 1 ? " GPU" : " GPUs") +
                    "; start as many, or let ranks share them " +
                    flagOrArgument("with --threads and without --comm nccl",
                                   "in fsdp-run, with --threads"));
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
                          const BackendOptions &options,
                          const Transports &transports,
                          const LocalPlace &place) {
  if (plan.device != plan::DeviceKind::Cuda)
    return {std::make_unique<HostBackend>(communicator, options.hostStreams),
            communicator.transport(), ""};
  auto device = openCudaDevice(gpuOf(place), std::size(plan::streamNames));
  auto kernels = openCudaKernels(*device, gpuMemoryHooks);
  setDefaultGpuAllocator(kernels->allocator());
  auto between =
      transports.devices == DeviceTransport::Copies
          ? createLocalDeviceCommunicator(place.threads, communicator.rank(),
                                          *device, *kernels,
                                          communicator.watch())
          : connectNccl(*device, communicator, {options.singleCommunicator});
  std::string transport = between->transport();
  std::string reason = "on " + device->describe();
  return {std::make_unique<DeviceBackend>(communicator.rank(),
                                          std::move(device), std::move(kernels),
                                          std::move(between)),
          transport, reason};
}

} // namespace fsdp

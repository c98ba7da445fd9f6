#ifndef FSDP_RUNTIME_EXECUTOR_DEVICESTREAMS_H
#define FSDP_RUNTIME_EXECUTOR_DEVICESTREAMS_H

#include "comm/DeviceCommunicator.h"
#include "executor/Streams.h"

#include <memory>

namespace fsdp {

/// Streams of a GPU: calls launch, and return before what they launched has
/// run. `streams` streams of the device, `events` events of a program at most;
/// events of higher numbers are taken too. Both outlive it.
std::unique_ptr<Streams> makeDeviceStreams(Device &device,
                                           DeviceCommunicator &communicator,
                                           unsigned streams, unsigned events);

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_DEVICESTREAMS_H

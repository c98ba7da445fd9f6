// The doctor's findings as JSON: what ranks tell each other, and `--json`.
#ifndef FSDP_RUNTIME_DOCTOR_JSON_H
#define FSDP_RUNTIME_DOCTOR_JSON_H

#include "doctor/Diagnosis.h"

#include <nlohmann/json.hpp>

namespace fsdp::doctor {

// What another version does not say keeps its default.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Interface, name, addresses, mtu,
                                                isUp, isLoopback, megabits)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Link, kind, name, rate, pcie,
                                                lanes, mostLanes, numaNode)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Room, free, total)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(
    HostFacts, host, machine, version, pytorch, cuda, nccl, kernel, processor,
    cores, coresOfHost, quota, memory, sharedMemory, lockable, openFiles,
    interfaces, links, listens, reaches, variables)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Bandwidth, kind, bytesPerSecond)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TransportFigures, transport,
                                                isNeeded, error, reached,
                                                latency, bandwidths)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(RankReport, rank, facts, flops,
                                                gpu, clockSeconds,
                                                clockUncertainty, transports)

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_JSON_H

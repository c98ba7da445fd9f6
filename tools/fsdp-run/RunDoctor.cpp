#include "RunDoctor.h"

#include "Error.h"
#include "doctor/Doctor.h"
#include "doctor/ReportText.h"
#include "drivers/cuda/NcclCommunicator.h"
#include "launch/MemoryFile.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace fsdp {

/// The rank's GPU; null where this machine or this build has none.
static std::unique_ptr<Device> openGpu(const Membership &me) {
  int gpus = 0;
  try {
    gpus = countCudaDevices();
  } catch (const Error &) {
    return nullptr;
  }
  return openCudaDevice(me.localRank % gpus, 1);
}

void runDoctor(const CommandLine &line, const Membership &me) {
  const LaunchOptions &launch = line.launch;
  Variables variables = processVariables();
  MemoryFile alone;
  MeetingPoint where;
  where.path = alone.path();
  if (me.size > 1)
    where = parseMeetingPoint(launch.meetingUrl(), variables);
  doctor::DoctorOptions options;
  options.version = FSDP_VERSION;
  options.pytorch = FSDP_TORCH;
  options.rendezvousHost = where.host;
  if (launch.patienceSeconds > 0)
    options.patience = std::chrono::seconds(
        static_cast<int64_t>(std::ceil(launch.patienceSeconds)));
  std::unique_ptr<Device> gpu = openGpu(me);
  options.gpu = gpu.get();
  options.connectGpus = [&](Communicator &hosts) {
    return connectNccl(*gpu, hosts, {launch.backend.singleCommunicator});
  };
  auto meeting =
      std::make_shared<Meeting>(me, where, runKey(variables) + "/doctor",
                                std::chrono::seconds(launch.meetingSeconds));
  meeting->agree({});
  auto ranks = doctor::examine(me, meeting, options);
  meeting->close(options.patience);
  if (me.rank != 0)
    return;
  auto findings = doctor::diagnose(ranks);
  std::string place = where.kind == MeetingPoint::Kind::Server
                          ? where.host + ":" + std::to_string(where.port)
                          : "";
  auto text = line.doctorJson ? doctor::reportJson : doctor::reportText;
  std::fputs(text(ranks, findings, place).c_str(), stdout);
  std::fflush(stdout);
  auto problems =
      std::count_if(findings.begin(), findings.end(), [](const auto &finding) {
        return finding.severity == doctor::Severity::Problem;
      });
  if (problems > 0)
    throw Error(E::Doctor,
                "a run of these ranks would fail: " + std::to_string(problems) +
                    (problems == 1 ? " problem is" : " problems are") +
                    " named above");
}

} // namespace fsdp

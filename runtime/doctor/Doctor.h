// What fsdp-run --doctor does: looks at all hosts of a run, and tries its
// collectives, before there is a plan.
#ifndef FSDP_RUNTIME_DOCTOR_DOCTOR_H
#define FSDP_RUNTIME_DOCTOR_DOCTOR_H

#include "comm/DeviceCommunicator.h"
#include "doctor/Diagnosis.h"
#include "launch/Rendezvous.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::doctor {

struct DoctorOptions {
  std::string version, pytorch; // this program's
  std::string rendezvousHost;   // empty: the ranks meet in a file
  /// How long a rank waits for another one in a collective.
  std::chrono::seconds patience = std::chrono::seconds(20);
  /// This rank's GPU, and what connects it with the others over their hosts'
  /// communicator; null: it has none.
  Device *gpu = nullptr;
  std::function<std::unique_ptr<DeviceCommunicator>(Communicator &)>
      connectGpus;
};

/// What every rank reports, by rank, on all ranks. Collective; what fails
/// between ranks is part of the reports. A thread may still try to connect when
/// it returns: end the process with _Exit. Throws Error where the ranks do not
/// meet.
std::vector<RankReport> examine(const Membership &me,
                                std::shared_ptr<Meeting> meeting,
                                const DoctorOptions &options);

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_DOCTOR_H

#ifndef FSDP_RUNTIME_DOCTOR_REPORTTEXT_H
#define FSDP_RUNTIME_DOCTOR_REPORTTEXT_H

#include "doctor/Diagnosis.h"

namespace fsdp::doctor {

/// For people: a paragraph for each host, a table of transports, the findings.
std::string reportText(const std::vector<RankReport> &ranks,
                       const std::vector<Finding> &findings,
                       const std::string &rendezvous);

/// The same as one JSON object: `rendezvous`, `ranks` and `findings`.
std::string reportJson(const std::vector<RankReport> &ranks,
                       const std::vector<Finding> &findings,
                       const std::string &rendezvous);

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_REPORTTEXT_H

// The plan's file: a fixed header, then the FlatBuffer.
//
//   bytes  0..7   "FSDPPLAN"
//   bytes  8..11  container version, little-endian
//   bytes 12..19  length of the FlatBuffer in bytes, little-endian
//   bytes 20..51  SHA-256 of the FlatBuffer
//   bytes 52..63  zero
#ifndef FSDP_PLAN_PLANFILE_H
#define FSDP_PLAN_PLANFILE_H

#include "plan/PlanTypes.h"
#include "plan/check/OperatorChecker.h"

#include <memory>
#include <string>

namespace fsdp::plan {

struct LoadedPlan {
  std::unique_ptr<PlanT> plan;
  /// SHA-256 of the plan, 64 lower-case hex digits: what ranks compare.
  std::string digest;
};

/// The whole contents of a plan file.
std::string serializePlan(const PlanT &plan);

/// Reads what serializePlan gave. The digest is compared before anything else
/// is looked at, then the FlatBuffer is verified, then checkPlan() is run, then
/// checkOperators(), where somebody knows PyTorch's schemas: without `find`
/// what is returned must not be executed. `name` stands in errors. Throws
/// PlanError.
LoadedPlan parsePlan(const std::string &bytes, const std::string &name,
                     const FindSchema &find);

/// Writes atomically: another reader sees the old file or the new one, and an
/// error leaves no file. Throws PlanError.
void writePlan(const PlanT &plan, const std::string &path);

/// Reads and checks a plan file, as parsePlan() does. Throws PlanError.
LoadedPlan readPlan(const std::string &path, const FindSchema &find);

} // namespace fsdp::plan

#endif // FSDP_PLAN_PLANFILE_H

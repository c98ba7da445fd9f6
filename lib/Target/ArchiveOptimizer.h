// The optimizer of fsdp.json: its groups, and its rules.

#ifndef FSDP_LIB_TARGET_ARCHIVEOPTIMIZER_H
#define FSDP_LIB_TARGET_ARCHIVEOPTIMIZER_H

#include "ArchiveMetadata.h"
#include "JsonReader.h"

#include <set>

namespace fsdp {

/// `parameters` are the names that a group may have. Throws ArchiveError where
/// a field is missing or ill-typed, or a rule names what there is not.
OptimizerInfo readOptimizer(const JsonReader &json,
                            const std::set<std::string> &parameters);

/// Where a rule counts steps without a gradient there is a buffer for that; else
/// throws ArchiveError.
void checkMissed(const ArchiveMetadata &metadata);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVEOPTIMIZER_H

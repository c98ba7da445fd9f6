// How fsdp.json trains: optimizer, bounds of gradients, loss scale, learning
// rates, length and micro-batches.

#ifndef FSDP_LIB_TARGET_ARCHIVETRAINING_H
#define FSDP_LIB_TARGET_ARCHIVETRAINING_H

#include "ArchiveMetadata.h"
#include "JsonReader.h"

#include <set>

namespace fsdp {

/// Reads these fields of the whole file `json` into `metadata`; `parameters`
/// are the names that a group may have. Throws ArchiveError.
void readTraining(const JsonReader &json,
                  const std::set<std::string> &parameters,
                  ArchiveMetadata &metadata);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVETRAINING_H

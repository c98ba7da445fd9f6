// What an archive may make PyTorch's readers do: these allocate what a record
// says that it needs, and recurse where it nests.

#ifndef FSDP_LIB_TARGET_ARCHIVEBOUNDS_H
#define FSDP_LIB_TARGET_ARCHIVEBOUNDS_H

#include "TorchGraph.h"

namespace fsdp {

/// Throws ArchiveError where the records of a zip file take more than its own
/// bytes and 16 MiB: where they are compressed, which export does not do, or
/// lie over each other.
void checkRecordSizes(std::string_view zip);

/// Throws ArchiveError where a record of code, of pickled objects or of JSON
/// nests deeper than any that export writes.
void checkDepth(const std::string &name, const std::string &record);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVEBOUNDS_H

// Has an archive been altered?.

#ifndef FSDP_LIB_TARGET_ARCHIVEDIGESTS_H
#define FSDP_LIB_TARGET_ARCHIVEDIGESTS_H

#include "TorchGraph.h"

#include <map>

namespace fsdp {

constexpr const char kMetadataRecord[] = "extra/fsdp.json";

/// Compares every record's SHA-256 with `digests`, and that of fsdp.json,
/// taken without the digest itself, with `metadataDigest`. Throws ArchiveError
/// where one differs, is not listed or is absent.
void checkDigests(const TorchArchive &archive,
                  const std::map<std::string, std::string> &digests,
                  const std::string &metadataDigest);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVEDIGESTS_H

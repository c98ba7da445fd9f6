#ifndef FSDP_LIB_TARGET_ARCHIVERECIPES_H
#define FSDP_LIB_TARGET_ARCHIVERECIPES_H

#include "ArchiveMetadata.h"
#include "JsonReader.h"

namespace fsdp {

/// Reads the field `init` of a parameter or a buffer: empty where it is null.
/// Throws ArchiveError.
std::vector<InitInfo> readRecipe(const JsonReader &json);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVERECIPES_H

// Rules of copies: of fsdp-verify-commands.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_VERIFYCOPIES_H
#define FSDP_LIB_TRANSFORMS_LOWER_VERIFYCOPIES_H

#include "Lower/CommandMemory.h"

namespace fsdp {

/// A copy on a side stream is of that stream's direction: C8.
mlir::LogicalResult verifyCopyStream(CmdCopyOp copy, int64_t stream);

/// Copies, by C4, C6 and C17; `shards` is the size of the shard axis.
mlir::LogicalResult runCopy(CmdCopyOp copy, CommandMemory &memory,
                            int64_t shards);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_VERIFYCOPIES_H

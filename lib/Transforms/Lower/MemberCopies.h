// The copies between a bucket and its members.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_MEMBERCOPIES_H
#define FSDP_LIB_TRANSFORMS_LOWER_MEMBERCOPIES_H

#include "Lower/CopyPieces.h"
#include "Lower/ProgramValues.h"

namespace fsdp {

/// Copies what is not there already into the bucket `whole`, whose gaps become
/// zero. `inputs` are the `members`, in their order; all are declared.
CopyPieces getPacking(mlir::ValueRange inputs, mlir::ArrayAttr members,
                      mlir::Value whole, const ProgramValues &values,
                      const Aliases &aliases);

/// A remark for each reason for which members of `pack` are copied.
void remarkCopies(PackOp pack, const Aliases &aliases);

/// Copies what does not stay there out of a bucket; all are declared.
CopyPieces getUnpacking(UnpackOp unpack, const ProgramValues &values,
                        const Aliases &aliases);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_MEMBERCOPIES_H

// The passes and options in --pass-pipeline="...".
#ifndef FSDP_TOOLS_PASSNAMES_H
#define FSDP_TOOLS_PASSNAMES_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/ArrayRef.h"

namespace fsdp {

/// Prints which pass has its options in the next word of the command line,
/// where the parser of flags, which comes behind it, would take them for a
/// file.
mlir::LogicalResult checkOptionsOfFlags(llvm::ArrayRef<char *> words);

/// Prints which pass there is not, with the nearest one, or which option a pass
/// does not take. Called behind the parser of flags, which knows all passes.
mlir::LogicalResult checkPassNames();

} // namespace fsdp

#endif // FSDP_TOOLS_PASSNAMES_H

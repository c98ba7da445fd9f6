// The files that a command line of fsdp-translate names, before LLVM's parser
// has read it.
#ifndef FSDP_TRANSLATE_FILEARGUMENTS_H
#define FSDP_TRANSLATE_FILEARGUMENTS_H

#include "mlir/Support/LLVM.h"

#include <string>
#include <vector>

namespace fsdp {

/// Fails, with an error, where the input cannot be read or the output cannot be
/// written. What else is wrong with the arguments LLVM says.
mlir::LogicalResult checkFiles(llvm::ArrayRef<std::string> arguments);

/// Makes the second file of `--plan-diff A B` a flag: the machinery of
/// translations takes one file.
void nameSecondPlan(std::vector<std::string> &arguments);

} // namespace fsdp

#endif // FSDP_TRANSLATE_FILEARGUMENTS_H

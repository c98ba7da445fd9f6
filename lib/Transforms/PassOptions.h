// Options of passes that are more than a word.

#ifndef FSDP_LIB_TRANSFORMS_PASSOPTIONS_H
#define FSDP_LIB_TRANSFORMS_PASSOPTIONS_H

#include "cost/Cluster.h"
#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace fsdp {

/// Bytes of a number of MiB, "1.5"; none where the text is empty or 0. Fails
/// with an error that names the option.
mlir::LogicalResult readMebibytes(mlir::ModuleOp module, llvm::StringRef name,
                                  llvm::StringRef text,
                                  std::optional<int64_t> &bytes);

/// The bytes of `memory-budget-mib`; none where the text is empty. Fails with
/// an error where it is no number, or 0.
mlir::LogicalResult readMemoryBudget(mlir::ModuleOp module,
                                     llvm::StringRef text,
                                     std::optional<int64_t> &bytes);

/// The floating-point type of one of PyTorch's names, "bfloat16"; null where
/// the text is empty. Fails with an error that names the option.
mlir::LogicalResult readFloatType(mlir::ModuleOp module, llvm::StringRef name,
                                  llvm::StringRef text, mlir::Type &type);

/// The cluster of that name or file; "auto": local for CPUs, eight H100s of one
/// host for GPUs. Fails with an error that names the presets
/// or the file's wrong key.
mlir::LogicalResult readCluster(mlir::ModuleOp module, llvm::StringRef name,
                                cost::Cluster &cluster);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_PASSOPTIONS_H

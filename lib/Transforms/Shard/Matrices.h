// Parameters whose rule looks at all of them.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_MATRICES_H
#define FSDP_LIB_TRANSFORMS_SHARD_MATRICES_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseSet.h"

namespace fsdp {

/// The parameters that programs update by such rules.
llvm::DenseSet<StateOp> getMatrices(mlir::ModuleOp module,
                                    const mlir::SymbolTable &table);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_MATRICES_H

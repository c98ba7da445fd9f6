// Programs, phases and the mesh of a module.

#ifndef FSDP_TRANSFORMS_PROGRAMS_H
#define FSDP_TRANSFORMS_PROGRAMS_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"

namespace fsdp {

/// The programs of a module: its functions, less rules and declarations.
llvm::SmallVector<mlir::func::FuncOp> getPrograms(mlir::ModuleOp module);

/// Whether an op belongs to the backward pass.
bool isBackward(mlir::Operation *op);

/// The module's grid, or null before fsdp-shard-state.
mlir::shard::GridOp getMesh(mlir::ModuleOp module);

/// The number of ranks: 1 before fsdp-shard-state.
int64_t getNumRanks(mlir::ModuleOp module);

/// Rows of dimension 0 that one rank holds, padding included: those of the
/// first of `torch.chunk`'s pieces.
int64_t getLocalRows(int64_t rows, int64_t ranks);

/// The gradient in row-major order, which is how ranks and arenas exchange it:
/// itself, or a clone.
mlir::Value createRowMajor(mlir::OpBuilder &builder, mlir::Value gradient);

/// The load whose part a collective sends, fetched from the host or not; null
/// where it sends something else.
LoadOp getSentLoad(mlir::Value sent);

/// Erases ops of a program's block that have no reader and no effect.
void eraseDeadOps(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PROGRAMS_H

// Programs, phases and units of a module.

#ifndef FSDP_TRANSFORMS_PROGRAMS_H
#define FSDP_TRANSFORMS_PROGRAMS_H

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"

namespace fsdp {

using aten::isBackward;

/// The direction of the calls that prepare or use what is gathered for a
/// region.
inline aten::Direction getDirection(ProgramRegion region) {
  return region == ProgramRegion::Backward ? aten::Direction::Backward
                                           : aten::Direction::Forward;
}

/// The programs that a step runs in turn on one batch, for batches of the first
/// shape: `step`, and those that follow it.
llvm::SmallVector<mlir::func::FuncOp> getTurns(mlir::func::FuncOp step);

/// The calls that backward begins with: gradients of the losses by themselves.
llvm::SmallVector<aten::CallOp> getCotangents(mlir::func::FuncOp program);

/// The same. Fails, with an error, where there is none.
mlir::FailureOr<llvm::SmallVector<aten::CallOp>>
requireCotangents(mlir::func::FuncOp program);

/// The module's units by name.
llvm::StringMap<UnitOp> getUnits(mlir::ModuleOp module);

/// Rows of dimension 0 that one rank holds, padding included: those of the
/// first of `torch.chunk`'s pieces.
int64_t getLocalRows(int64_t rows, int64_t ranks);

/// The reduction of the gradient that an update reads, through the cast to the
/// parameter's dtype; null where it is not reduced.
ReduceGradOp getReduction(UpdateOp update);

/// The load of the parameter that a gather makes whole, fetched from the host
/// or not, and cast or not; null for anything else.
LoadOp getGatheredLoad(mlir::Value gathered);

/// The ops that read a value, or a precision cast of it.
llvm::SmallVector<mlir::Operation *> getReadersThroughCasts(mlir::Value value);

/// The gradient in row-major order, which is how ranks and arenas exchange it:
/// itself, or a clone.
mlir::Value createRowMajor(mlir::OpBuilder &builder, mlir::Value gradient);

/// What computes a value: an operator's name, or an operation's.
llvm::StringRef getOperator(mlir::Value value);

/// Makes a further result of a program an output.
mlir::LogicalResult addOutput(mlir::func::FuncOp program, llvm::StringRef name,
                              mlir::Value value);

/// Erases ops of a program's block that have no reader and no effect.
void eraseDeadOps(mlir::func::FuncOp program);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PROGRAMS_H

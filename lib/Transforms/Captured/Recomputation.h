// Repeats forward's ops in backward.

#ifndef FSDP_LIB_TRANSFORMS_CAPTURED_RECOMPUTATION_H
#define FSDP_LIB_TRANSFORMS_CAPTURED_RECOMPUTATION_H

#include "fsdp/Analysis/RematRegions.h"

#include "mlir/IR/Builders.h"

namespace fsdp {

/// Rewrites one program.
class Recomputation {
public:
  Recomputation(const RematRegions &regions, llvm::ArrayRef<Remat> choices)
      : regions(regions), choices(choices), repeated(choices.size(), 0) {}

  /// Gives backward ops of `program` what they read of the regions.
  void run(mlir::func::FuncOp program);

  /// Ops that were repeated, by region.
  llvm::ArrayRef<unsigned> getRepeated() const { return repeated; }

private:
  bool mustRepeat(mlir::Value value) const {
    std::optional<unsigned> region = regions.getRegion(value);
    return region && !regions.isKept(value, choices[*region]);
  }
  llvm::SmallVector<aten::CallOp> findMissing(mlir::Operation *reader) const;
  void repeat(mlir::OpBuilder &builder, aten::CallOp call);
  void setOperands(mlir::Operation *op);

  const RematRegions &regions;
  llvm::ArrayRef<Remat> choices; // by region
  llvm::SmallVector<unsigned> repeated;
  llvm::DenseMap<mlir::Value, mlir::Value> copies; // of what is not kept
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_CAPTURED_RECOMPUTATION_H

// Which forward ops are recomputed together.

#ifndef FSDP_ANALYSIS_REMATREGIONS_H
#define FSDP_ANALYSIS_REMATREGIONS_H

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/Support/raw_ostream.h"

#include <string>

namespace fsdp {

/// What of a region's results backward finds: all, those of matrix products,
/// convolutions and attention, or none.
enum class Remat { None, Selective, Full };

/// A program's forward ops, by what is recomputed together: a checkpoint that
/// the model has itself, else the innermost unit, less the root, whose modules
/// the op is in.
class RematRegions {
public:
  struct Region {
    std::string name; // a unit's, or "checkpoint N"
    bool isCheckpoint = false;
    llvm::SmallVector<aten::CallOp> ops; // in order of the program
  };

  static RematRegions compute(mlir::func::FuncOp program,
                              mlir::ModuleOp module);

  llvm::ArrayRef<Region> getRegions() const { return regions; }
  /// The index of the region that computes a value; nothing where it is in
  /// none, or is an op that cannot be repeated.
  std::optional<unsigned> getRegion(mlir::Value value) const;

  /// Whether forward keeps a value for backward. It keeps what is in no region,
  /// what a forward op of another region, or of none, reads, and what `remat`
  /// says.
  bool isKept(mlir::Value value, Remat remat) const;

  /// The ops that backward repeats of one region, in order of the program.
  llvm::SmallVector<aten::CallOp> getRepeated(unsigned region,
                                              Remat remat) const;

  /// The place of a forward op in the program; less for earlier ones.
  unsigned getPosition(aten::CallOp op) const { return positions.lookup(op); }

  void dump(llvm::raw_ostream &os) const;
  LLVM_DUMP_METHOD void dump() const { dump(llvm::errs()); }

private:
  llvm::SmallVector<Region> regions;
  llvm::DenseMap<mlir::Operation *, unsigned> indices, positions;
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_REMATREGIONS_H

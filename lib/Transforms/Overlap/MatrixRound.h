// What updates need of whole matrices, computed in front of them.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H

#include "Overlap/MatrixRule.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/IRMapping.h"

namespace fsdp {

/// Updates by the same rule, at most one per shard. Rank i computes the matrix
/// of the i-th update. Where there are fewer updates than ranks, the ranks that
/// are left compute the last matrix too. A single update is not shared: every
/// rank gathers its matrix.
class MatrixRound {
public:
  /// What is made stands in front of the last of the updates, and is counted
  /// with its `unit`.
  MatrixRound(llvm::ArrayRef<UpdateOp> updates, const MatrixRule &rule,
              int64_t shards, mlir::StringAttr unit);

  /// Gives the updates this rank's rows of what is crossing, and brings them
  /// together. The program holds no reader of their states behind them.
  void build();

  /// What a rank gives or gets over the shard axis, in bytes of whole buckets.
  int64_t getMovedBytes() const { return movedBytes; }
  /// Operations of the matrix that a rank computes.
  double getFlops() const { return flops; }

private:
  using Values = llvm::SmallVector<mlir::Value>;

  // A value of the rule: as this rank has it of each update, its rows alone; or
  // of the one matrix that it computes.
  Values getLocals(mlir::Value ofRule);
  mlir::Value getWhole(mlir::Value ofRule);
  mlir::Value getFree(mlir::Value ofRule);
  mlir::Value getArgument(UpdateOp update, mlir::BlockArgument ofRule);

  // From rows to a matrix, and back.
  mlir::Value gather(mlir::Value part, mlir::RankedTensorType whole);
  mlir::Value collect(llvm::ArrayRef<mlir::Value> parts,
                      mlir::RankedTensorType whole);
  mlir::Value cut(mlir::Value padded, mlir::RankedTensorType part);
  Values distribute(mlir::Value padded, mlir::RankedTensorType part);
  mlir::Value pad(mlir::Value whole, mlir::RankedTensorType part);

  mlir::Operation *clone(mlir::Operation *op, mlir::IRMapping &map);
  mlir::Value call(llvm::StringRef callee, mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::NamedAttribute> args, mlir::Type type);
  mlir::Value pack(llvm::ArrayRef<mlir::Value> inputs,
                   llvm::ArrayRef<MemberAttr> members,
                   mlir::RankedTensorType bucket);
  mlir::Value unpack(mlir::Value bucket, MemberAttr member,
                     mlir::RankedTensorType type);
  mlir::Value exchange(mlir::Value bucket);

  mlir::RankedTensorType getPartType(mlir::Type ofRule);
  /// The type of all ranks' rows, those that pad included.
  mlir::RankedTensorType getPaddedType(mlir::RankedTensorType part);
  mlir::RankedTensorType getBytesType(llvm::ArrayRef<int64_t> shape);
  /// Of a bucket with a row of bytes for each rank, in which `part` fits.
  mlir::RankedTensorType getRowsType(mlir::RankedTensorType part);
  /// All ranks' parts in such a bucket.
  MemberAttr getRows(mlir::RankedTensorType part);
  MemberAttr getMember(int64_t offset, int64_t bytes, int64_t blocks = 1);

  llvm::ArrayRef<UpdateOp> updates;
  const MatrixRule &rule;
  int64_t shards;
  mlir::StringAttr unit;
  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, Values> locals;
  mlir::IRMapping wholes, free;
  int64_t movedBytes = 0;
  double flops = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H

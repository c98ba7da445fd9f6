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
  /// What moves is counted with `unit`.
  MatrixRound(llvm::ArrayRef<UpdateOp> updates, const MatrixRule &rule,
              int64_t shards, mlir::StringAttr unit);

  size_t getSize() const { return updates.size(); }
  /// Where the updates stand, the last of them.
  UpdateOp getLast() const { return updates.back(); }
  /// Whether what ranks have of the matrices is there in front of an op.
  bool isReadyBefore(mlir::Operation *op) const;

  // The three parts, each in front of an op. What moves between two of them is
  // in flight: another round computes there.
  /// Sends what other ranks compute with.
  void gather(mlir::Operation *before);
  /// Computes this rank's matrix and sends the other ranks' rows of what is
  /// crossing.
  void compute(mlir::Operation *before);
  /// Gives the updates this rank's rows, and brings them together. The program
  /// holds no reader of their states behind them.
  void finish(mlir::Operation *before);

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

  // From rows to matrices, and back: all that is gathered in one exchange, and
  // all that is crossing in another one.
  void unpackMatrices();
  void sendRows();
  void unpackRows();
  mlir::Value pad(mlir::Value whole, mlir::RankedTensorType part);

  mlir::Operation *clone(mlir::Operation *op, mlir::IRMapping &map);
  mlir::Value call(llvm::StringRef callee, mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::NamedAttribute> args, mlir::Type type);
  mlir::Value pack(llvm::ArrayRef<mlir::Value> inputs,
                   llvm::ArrayRef<MemberAttr> members,
                   mlir::RankedTensorType bucket);
  Values unpack(mlir::Value bucket, llvm::ArrayRef<MemberAttr> members,
                llvm::ArrayRef<mlir::Type> types);
  mlir::Value allToAll(mlir::Value bucket);
  mlir::Value allGather(mlir::Value bucket);

  /// Of a rank's part of a value of the rule.
  mlir::RankedTensorType getPartType(mlir::Value ofRule);
  /// The type of all ranks' parts of a whole, those that pad included.
  mlir::RankedTensorType getPaddedType(mlir::RankedTensorType part,
                                       mlir::RankedTensorType whole);
  mlir::RankedTensorType getBytesType(llvm::ArrayRef<int64_t> shape);
  MemberAttr getMember(int64_t offset, int64_t bytes, int64_t blocks = 1);

  /// A row of bytes with a place for each of several parts.
  struct Row {
    llvm::SmallVector<int64_t> offsets, bytes;
    int64_t size = 0;
  };
  Row getRow(llvm::ArrayRef<mlir::Value> ofRule);
  /// All ranks' parts in a bucket of as many rows.
  MemberAttr getAll(const Row &row, size_t i);

  llvm::SmallVector<UpdateOp> updates;
  const MatrixRule &rule;
  int64_t shards;
  mlir::StringAttr unit;
  mlir::OpBuilder builder;
  mlir::Location loc;
  llvm::DenseMap<mlir::Value, Values> locals;
  mlir::IRMapping wholes, free;
  mlir::Value gathered, sent; // buckets; null: nothing moves
  int64_t movedBytes = 0;
  double flops = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H

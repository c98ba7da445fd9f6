// What updates need of whole matrices, computed in front of them.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H

#include "Overlap/MatrixRule.h"

#include "fsdp/Analysis/OpCost.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/IRMapping.h"

namespace fsdp {

/// Updates of whole matrices, at most one per shard. Rank i computes the i-th
/// matrix; where there are fewer than ranks, the ranks that are left compute
/// the last one too. A single matrix is not shared: every rank gathers it.
///
/// Matrices may be of several rules, those of a rule side by side. Then all
/// ranks exchange rows of one size, and what a rule does to a whole matrix is
/// for the shards that have one of it.
class MatrixRound {
public:
  struct Matrix {
    UpdateOp update;
    const MatrixRule *rule;
  };

  MatrixRound(llvm::ArrayRef<Matrix> matrices, int64_t shards);

  /// What moves is counted with this unit.
  void setUnit(mlir::StringAttr name) { unit = name; }
  size_t getSize() const { return count; }
  size_t getNumRules() const { return groups.size(); }
  /// Where the updates stand, the last of them.
  UpdateOp getLast() const { return last; }
  /// Whether what ranks have of the matrices is there in front of an op.
  bool isReadyBefore(mlir::Operation *op) const;
  /// What the exchanges take, and the computation of the rank with most of it,
  /// one after the other.
  double getSeconds(const OpCost &cost) const;

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
  /// Operations of the matrix that a rank computes, the one with most.
  double getFlops() const;

private:
  using Values = llvm::SmallVector<mlir::Value>;

  /// The matrices of one rule.
  struct Group {
    const MatrixRule *rule;
    llvm::SmallVector<UpdateOp> updates;
    size_t first;      // of the round's matrices, and of the ranks
    ShardsAttr shards; // the ranks that compute one; null: all
    llvm::DenseMap<mlir::Value, Values> locals;
    mlir::IRMapping wholes, free;
    double flops = 0;
  };
  Group &getGroup(int64_t rank);

  // A value of the rule: as this rank has it of each update, its rows alone; or
  // of the one matrix that it computes.
  Values getLocals(Group &group, mlir::Value ofRule);
  mlir::Value getWhole(Group &group, mlir::Value ofRule);
  mlir::Value getFree(Group &group, mlir::Value ofRule);
  mlir::Value getArgument(UpdateOp update, mlir::BlockArgument ofRule);

  // From rows to matrices, and back: all that is gathered in one exchange, and
  // all that is crossing in another one.
  void unpackMatrices(Group &group);
  void sendRows();
  void unpackRows();
  mlir::Value pad(Group &group, mlir::Value whole, mlir::RankedTensorType part);

  mlir::Operation *clone(mlir::Operation *op, mlir::IRMapping &map);
  mlir::Value call(llvm::StringRef callee, mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::NamedAttribute> args, mlir::Type type);
  /// Leaves the call that gives a value to the ranks of the group.
  mlir::Value restrict(const Group &group, mlir::Value called);
  mlir::Value pack(llvm::ArrayRef<mlir::Value> inputs,
                   llvm::ArrayRef<MemberAttr> members,
                   mlir::RankedTensorType bucket);
  Values unpack(mlir::Value bucket, llvm::ArrayRef<MemberAttr> members,
                llvm::ArrayRef<mlir::Type> types);
  mlir::Value allToAll(mlir::Value bucket);
  mlir::Value allGather(mlir::Value bucket);

  /// Of a rank's part of a value of the rule.
  mlir::RankedTensorType getPartType(const Group &group,
                                     mlir::Value ofRule) const;
  /// The type of all ranks' parts of a whole, those that pad included.
  mlir::RankedTensorType getPaddedType(mlir::RankedTensorType part,
                                       mlir::RankedTensorType whole);
  mlir::RankedTensorType getBytesType(llvm::ArrayRef<int64_t> shape);
  MemberAttr getMember(int64_t offset, int64_t bytes, int64_t blocks = 1,
                       ShardsAttr of = {});

  /// What a rule exchanges: its gathered or its crossing values.
  using Exchanged = llvm::ArrayRef<mlir::Value> (MatrixRule::*)() const;
  /// A row of bytes with a place for each of several parts.
  struct Row {
    llvm::SmallVector<int64_t> offsets, bytes;
    int64_t size = 0;
  };
  Row getRow(const Group &group, Exchanged what) const;
  /// The size of the longest row; 0: nothing is exchanged.
  int64_t getRowSize(Exchanged what) const;
  /// All ranks' parts in a bucket of as many rows.
  MemberAttr getAll(const Group &group, const Row &row, size_t i,
                    int64_t rowSize);

  llvm::SmallVector<Group, 1> groups;
  size_t count;
  UpdateOp last;
  int64_t shards;
  mlir::StringAttr unit;
  mlir::OpBuilder builder;
  mlir::Location loc;
  mlir::Value gathered, sent; // buckets; null: nothing moves
  int64_t movedBytes = 0;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXROUND_H

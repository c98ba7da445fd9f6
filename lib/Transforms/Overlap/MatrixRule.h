// A rule that looks at whole matrices, and what of it treats each element
// alike.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXRULE_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXRULE_H

#include "fsdp/Analysis/OpCost.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/SetVector.h"

namespace fsdp {

class MatrixRule {
public:
  /// Tells the values of a rule apart. Fails with an error on what a program
  /// cannot compute in front of the update.
  static mlir::FailureOr<MatrixRule> read(mlir::func::FuncOp rule);

  /// Whether each element follows from the same ones of the operands: a rank
  /// can compute the rows of it that it has.
  bool isOfElements(mlir::Value value) const {
    return elements.contains(value);
  }
  /// Whether a rank can do so before it is given anything.
  bool isOfOwnRows(mlir::Value value) const { return own.contains(value); }
  /// Whether it is as the parameter: ranks have the same rows of both.
  bool isLikeParameter(mlir::Type type) const;
  /// Whether it follows from numbers of the step alone.
  bool isFree(mlir::Value value) const { return free.contains(value); }
  /// What is of whole matrices, and read by what is of elements.
  llvm::ArrayRef<mlir::Value> getCrossing() const {
    return crossing.getArrayRef();
  }
  /// What ranks have parts of, and whoever computes what is crossing reads all
  /// of.
  llvm::ArrayRef<mlir::Value> getGathered() const {
    return gathered.getArrayRef();
  }
  /// The state that becomes a value which is not as the parameter: its place
  /// among the states.
  unsigned getState(mlir::Value value) const;

  /// Seconds of what is computed of one whole matrix.
  double getSeconds(const OpCost &cost) const;

  /// The rest of the rule, of elements, which takes what is crossing behind the
  /// states; made where it is not there yet.
  mlir::func::FuncOp getElementRule(const mlir::SymbolTable &table) const;

private:
  explicit MatrixRule(mlir::func::FuncOp rule) : rule(rule) {}
  bool treatsElements(mlir::Operation *op) const;
  void findCrossing(mlir::Value value, llvm::DenseSet<mlir::Value> &seen);
  /// Whether it follows from what is gathered of the operands: then it is not
  /// gathered itself.
  bool followsFromGathered(mlir::Value value) const;
  void findGathered(mlir::Value value, llvm::DenseSet<mlir::Value> &seen);
  void findOfWholes(mlir::Value value);

  mlir::func::FuncOp rule;
  llvm::DenseSet<mlir::Value> elements, own, free;
  llvm::SetVector<mlir::Value> crossing, gathered;
  /// What is computed of gathered values, for those that are crossing.
  llvm::SetVector<mlir::Operation *> ofWholes;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_MATRIXRULE_H

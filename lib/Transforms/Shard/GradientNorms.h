// Numbers over all gradients of a program.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_GRADIENTNORMS_H
#define FSDP_LIB_TRANSFORMS_SHARD_GRADIENTNORMS_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace fsdp {

/// The updates of parameters in a program's block.
llvm::SmallVector<UpdateOp> getUpdates(mlir::func::FuncOp program);

/// The gradients that a program's updates read, after localize. Several updates
/// may share one, which counts once.
class Gradients {
public:
  /// Fails, with an error, where gradients are cut over different axes of the
  /// mesh.
  static mlir::FailureOr<Gradients> collect(llvm::ArrayRef<UpdateOp> updates);

  /// The sum of |x|^p over all elements of all of them on all ranks, a
  /// tensor<f64>; for an infinite p the largest |x|, NaN above all. What each
  /// rank has whole counts once, not once per rank, and by the ranks' mean
  /// where it is each rank's own. Each unit's sum stands behind its gradients,
  /// so that most run while others are on their way; the rest where `builder`
  /// is: an `fsdp.all_reduce` over the axes that gradients are cut over, of the
  /// role that they are summed for, and one over replicas where some gradient
  /// is each rank's own.
  mlir::Value sumPowers(mlir::OpBuilder &builder, mlir::Location loc, double p,
                        CollectiveRole role) const;

  /// Whether all of them are float64.
  bool areDouble() const { return allDouble; }

private:
  /// By unit; what each rank has whole is in no unit.
  llvm::MapVector<mlir::Attribute, llvm::SetVector<mlir::Value>> byUnit;
  llvm::SmallVector<int64_t> axes; // that what is cut is cut over
  int64_t ranks = 1;               // along them
  /// Along which ranks have other numbers than their replicas.
  llvm::SmallVector<int64_t> replicaAxes;
  int64_t replicas = 1;
  bool allDouble = true;
};

/// A call, in backward, of an operator that takes a list.
mlir::Value createListCall(mlir::OpBuilder &builder, mlir::Location loc,
                           llvm::StringRef callee,
                           llvm::ArrayRef<mlir::Value> members,
                           llvm::ArrayRef<mlir::NamedAttribute> args,
                           mlir::RankedTensorType type);

/// Calls on scalars, or on each number of a list, in backward.
class ScalarCalls {
public:
  ScalarCalls(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc) {}

  /// A call with the operand's type, or another element type's.
  mlir::Value call(llvm::StringRef callee, mlir::ValueRange operands,
                   llvm::ArrayRef<mlir::NamedAttribute> args = {},
                   mlir::Type element = {});
  /// A call with one floating-point argument.
  mlir::Value call(llvm::StringRef callee, mlir::Value operand,
                   llvm::StringRef name, double argument);
  /// The number in another floating-point type.
  mlir::Value cast(mlir::Value number, mlir::Type element);

private:
  mlir::OpBuilder &builder;
  mlir::Location loc;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_GRADIENTNORMS_H

// Calls and step scalars of a plan.
//
// What programs and rules have in common.

#ifndef FSDP_TARGET_PLANCALLS_H
#define FSDP_TARGET_PLANCALLS_H

#include "PlanSymbols.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "plan/PlanTypes.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/DenseMap.h"

#include <memory>

namespace fsdp {

using aten::getDType;

/// Collects the step scalars of a program or rule: f64 values that are
/// evaluated before each step.
class ScalarTable {
public:
  explicit ScalarTable(const PlanSymbols &symbols) : symbols(symbols) {}

  /// Adds the results of an op that is a step scalar; fails with an error where
  /// the plan cannot evaluate it.
  mlir::LogicalResult add(mlir::Operation *op);
  std::optional<int> lookup(mlir::Value value) const;
  std::vector<std::unique_ptr<plan::ScalarT>> take() {
    return std::move(scalars);
  }

private:
  mlir::LogicalResult addRecurrence(mlir::Operation *op);

  const PlanSymbols &symbols;
  std::vector<std::unique_ptr<plan::ScalarT>> scalars;
  llvm::DenseMap<mlir::Value, int> indices;
};

/// A value of a program, with neither a name nor a place.
std::unique_ptr<plan::ValueT> exportTensor(mlir::RankedTensorType type,
                                           plan::DType dtype);

/// An input of a program: its name, which may be empty, and whether data gives
/// it. `value` is the plan's number of the argument.
std::unique_ptr<plan::InputT> exportInput(mlir::func::FuncOp program,
                                          unsigned argument, int value);

/// A call with an argument for each argument of its schema. `values` are the
/// plan's value numbers. The results are left to the caller. Fails with an
/// error on `op`.
mlir::FailureOr<std::unique_ptr<plan::AtenT>>
exportCall(mlir::Operation *op, llvm::StringRef callee, mlir::ValueRange inputs,
           llvm::ArrayRef<int32_t> slots, mlir::DictionaryAttr args,
           const llvm::DenseMap<mlir::Value, int> &values,
           const ScalarTable &scalars);

} // namespace fsdp

#endif // FSDP_TARGET_PLANCALLS_H

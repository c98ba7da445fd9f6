// From commands to a plan.

#ifndef FSDP_TARGET_PLANEXPORT_H
#define FSDP_TARGET_PLANEXPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "plan/check/PlanChecker.h"
#include "plan/meaning/Meanings.h"
#include "llvm/ADT/StringRef.h"

#include <string>
#include <vector>

namespace fsdp {

/// The ops that the entries of a plan come from, by their numbers there.
struct PlanOps {
  using List = std::vector<mlir::Operation *>;
  struct Program {
    mlir::Operation *function = nullptr;
    /// Null for an argument.
    List values;
    List commands;
  };

  List units, states, rules;
  std::vector<List> calls; // of each rule
  std::vector<Program> programs;

  /// The op that is this entry; null where it is of no op alone.
  mlir::Operation *find(const plan::PlanEntry &entry) const;
};

/// A plan in memory.
struct ExportedPlan {
  mlir::ModuleOp module;
  plan::PlanT plan;
  PlanOps ops;
  /// What programs say of the sequential step.
  std::vector<plan::Computations> said;
};

/// The plan of a module in the commands phase: a walk that changes nothing.
/// Fails with an error on the op that no plan can hold, or that names the pass
/// to run first. The plan is not checked yet.
mlir::FailureOr<ExportedPlan> exportPlan(mlir::ModuleOp module);

/// Runs the plan's checker. Each thing that it finds is an error at the op that
/// it is of.
/// The plan gets its meanings.
mlir::LogicalResult verifyPlan(ExportedPlan &exported);

/// The sequential step as a plan that can be followed, but not run: it has
/// states, rules and programs, and no places. Fails with an error on an op that
/// is none of a captured step.
mlir::FailureOr<plan::PlanT> exportCaptured(mlir::ModuleOp module);

/// Writes `fsdp.meaning` on each program of a captured module.
mlir::LogicalResult recordMeanings(mlir::ModuleOp module);

/// Registers `--fsdp-to-plan` with mlir-translate's machinery: the plan's file,
/// checked.
void registerPlanExport();

/// Registers `--plan-to-text`, which checks a plan file and prints it.
void registerPlanToText();

/// Registers `--plan-to-json`: a plan's facts and predictions, for programs.
void registerPlanToJson();

/// Registers `--plan-to-trace`: a step of a plan as it is predicted.
void registerPlanToTrace();

/// The flag that names the second plan of `--plan-diff`: programs take one
/// file.
inline constexpr llvm::StringLiteral kPlanDiffAfter = "plan-diff-after";

/// Registers `--plan-diff`: what a second plan changes.
void registerPlanDiff();

} // namespace fsdp

#endif // FSDP_TARGET_PLANEXPORT_H

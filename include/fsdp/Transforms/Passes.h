// All passes and pipelines.

#ifndef FSDP_TRANSFORMS_PASSES_H
#define FSDP_TRANSFORMS_PASSES_H

#include "fsdp/Dialect/Diagnostics.h"
#include "fsdp/Transforms/OptionValues.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace fsdp {

/// The base of all passes: a pass over a module, whose options have errors that
/// say how to go on, and whose errors have identifiers.
class ModulePass : public mlir::OperationPass<mlir::ModuleOp> {
public:
  mlir::LogicalResult
  initializeOptions(llvm::StringRef options,
                    llvm::function_ref<mlir::LogicalResult(const llvm::Twine &)>
                        fail) override;

  /// What errors of the pass are that do not say their kind.
  virtual E kindOfErrors() const { return E::Pass; }

protected:
  /// What the pass does.
  virtual void runOnModule() = 0;

private:
  /// Runs the pass. Where remarks of the category `changes` are asked for, one
  /// says what became of the programs.
  void runOnOperation() final;

protected:
  explicit ModulePass(mlir::TypeID id) : OperationPass(id) {}
  ModulePass(const ModulePass &other) = default;
};

#define GEN_PASS_DECL
#include "fsdp/Transforms/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "fsdp/Transforms/Passes.h.inc"

/// Registers the pipelines `fsdp-shard`, `fsdp-overlap`, `fsdp-lower` and
/// `fsdp-pipeline`, which is the three in a row.
void registerPipelines();

/// Prints the pipelines' options as Markdown, a section each.
void printPipelineOptions(llvm::raw_ostream &os);

/// Likewise the clusters that have a name.
void printClusters(llvm::raw_ostream &os);

} // namespace fsdp

#endif // FSDP_TRANSFORMS_PASSES_H

// What to recompute so that a budget of memory holds.

#ifndef FSDP_LIB_TRANSFORMS_CAPTURED_REMATSEARCH_H
#define FSDP_LIB_TRANSFORMS_CAPTURED_REMATSEARCH_H

#include "fsdp/Analysis/Aliases.h"
#include "fsdp/Analysis/OpCost.h"
#include "fsdp/Analysis/RematRegions.h"

#include "mlir/IR/OwningOpRef.h"

namespace fsdp {

/// Chooses for each region of a program what forward keeps, so that the
/// program's peak is within a budget at the least predicted time.
///
/// A choice is measured: the passes that follow run on a copy of the module, up
/// to the schedule, and peak and time are those of what they make. So that few
/// choices are measured, each region's ways to keep less are ordered by the
/// bytes that each frees in a second of recomputation, and the shortest
/// beginning of this list that fits is looked for; then what turns out not to
/// be needed is given back, the slowest first.
class RematSearch {
public:
  /// `passes` is the text of the passes that follow.
  RematSearch(mlir::func::FuncOp program, const RematRegions &regions,
              const OpCost &cost, llvm::StringRef passes, int64_t budget);

  struct Measure {
    int64_t peakBytes = 0; // states included
    double stepSeconds = 0;
  };
  struct Result {
    llvm::SmallVector<Remat> choices; // by region
    Measure before, after;            // nothing recomputed; the choices
    unsigned measured = 0;            // choices
  };
  /// Fails with an error: the following passes fail, or no choice fits, which
  /// names the least that one needs.
  mlir::FailureOr<Result> run();

  /// Seconds that it takes to recompute a region, and bytes that are not kept.
  struct Effect {
    double seconds = 0;
    int64_t freedBytes = 0;
  };
  Effect getEffect(unsigned region, Remat remat) const;

private:
  struct Step {
    unsigned region;
    Remat remat;
    Effect effect; // on top of the region's step before
  };
  using Choices = llvm::SmallVector<Remat>;

  void addSteps(unsigned region);
  int64_t getHeldBytes(unsigned region, Remat remat,
                       llvm::ArrayRef<aten::CallOp> repeated) const;
  Choices choose(llvm::ArrayRef<Step> taken) const;
  mlir::FailureOr<Measure> measure(const Choices &choices);
  mlir::LogicalResult giveBack(llvm::SmallVector<Step> &taken, Measure &best);
  bool fits(const Measure &measure) const {
    return measure.peakBytes <= budget;
  }

  mlir::func::FuncOp program;
  const RematRegions &regions;
  const OpCost &cost;
  std::string passes;
  int64_t budget;
  llvm::SmallVector<Step> steps;
  Aliases aliases;
  unsigned measured = 0;

  /// Trials are compiled apart, so that their remarks and errors are no one's.
  mlir::MLIRContext context;
  mlir::OwningOpRef<mlir::ModuleOp> copy;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_CAPTURED_REMATSEARCH_H

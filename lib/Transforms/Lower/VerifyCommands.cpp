// Close the commands phase.
//
// The plan's checker decides: the module becomes a plan in memory, as it will
// in a file, and what is found there is an error at its op. Here is only what
// a plan does not say: which operators PyTorch has kernels of.

#include "Remarks.h"

#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Target/PlanExport.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYCOMMANDS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

static LogicalResult verifyKernel(Operation *op, StringRef callee) {
  const aten::Schema *schema = aten::lookup(callee);
  if (!schema || schema->hasTag(aten::kOnCuda))
    return success();
  return op->emitOpError("C")
         << int(plan::C16) << ": runs \"" << callee
         << "\", of which this PyTorch has no kernel for GPUs";
}

/// What is in the device's memory is computed by kernels for GPUs.
static LogicalResult verifyKernels(func::FuncOp program,
                                   SymbolTableCollection &symbols) {
  auto isOnHost = [](Value value) {
    PlaceAttr place = getPlace(value);
    return place && place.getArena() == kHostArena;
  };
  for (Operation &op : program.getOps()) {
    if (auto call = dyn_cast<CmdAtenOp>(op);
        call && !call.getView() && llvm::none_of(call.getOutputs(), isOnHost) &&
        failed(verifyKernel(call, call.getCallee())))
      return failure();
    auto update = dyn_cast<CmdUpdateOp>(op);
    if (!update || isOnHost(update.getGradient()))
      continue;
    auto rule = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        update, update.getRuleAttr());
    for (auto call : rule.getOps<aten::CallOp>())
      if (failed(verifyKernel(update, call.getCallee())))
        return failure();
  }
  return success();
}

/// What of a program is shown to be the sequential step's, and what is not, by
/// the reason.
static void remarkMeanings(const ExportedPlan &exported, size_t number) {
  const plan::ProgramT &program = *exported.plan.programs[number];
  if (program.meanings.empty())
    return;
  struct Uncovered {
    std::string first;
    int count = 0;
  };
  llvm::MapVector<StringRef, Uncovered> uncovered;
  size_t covered = 0;
  for (const auto &meaning : program.meanings) {
    if (meaning->uncovered.empty()) {
      ++covered;
      continue;
    }
    Uncovered &rest = uncovered[meaning->uncovered];
    if (!rest.count++)
      rest.first =
          plan::describe(exported.plan, program, meaning->kind, meaning->index);
  }
  Location loc = exported.ops.programs[number].function->getLoc();
  remarkPassed(R::ProvenMeaning, loc, program.name)
      << "computed as by the sequential step" << metrics::Covered(covered);
  for (const auto &[why, rest] : uncovered)
    remarkMissed(R::ProvenMeaning, loc, program.name)
        << ("not shown to be the sequential step's: " + why).str()
        << metrics::First(rest.first) << metrics::Uncovered(rest.count);
}

namespace {
struct VerifyCommandsPass : fsdp::impl::VerifyCommandsBase<VerifyCommandsPass> {
  E kindOfErrors() const override { return E::PlanConstraint; }

  void runOnModule() override {
    FailureOr<ExportedPlan> exported = exportPlan(getOperation());
    if (failed(exported))
      return signalPassFailure();
    SymbolTableCollection symbols;
    if (exported->plan.device == plan::DeviceKind::Cuda)
      for (func::FuncOp program : getPrograms(getOperation()))
        if (failed(verifyKernels(program, symbols)))
          return signalPassFailure();
    if (failed(verifyPlan(*exported)))
      return signalPassFailure();
    for (size_t p = 0; p < exported->plan.programs.size(); ++p)
      remarkMeanings(*exported, p);
    markAllAnalysesPreserved();
  }
};
} // namespace

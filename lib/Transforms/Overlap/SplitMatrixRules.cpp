// fsdp-split-matrix-rules.

#include "Overlap/MatrixRound.h"

#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

namespace fsdp {
#define GEN_PASS_DEF_SPLITMATRIXRULES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class SplitMatrixRules
    : public fsdp::impl::SplitMatrixRulesBase<SplitMatrixRules> {
  void runOnOperation() override;
  LogicalResult split(func::FuncOp program, const SymbolTable &table);
  LogicalResult checkUpdate(UpdateOp update, StateOp parameter,
                            func::FuncOp rule);
  double split(ArrayRef<UpdateOp> round, const MatrixRule &rule, int64_t shards,
               const SymbolTable &table);
  static remark::RemarkOpts getRemark(StringRef name) {
    return remark::RemarkOpts::name(name).category("fsdp-split-matrix-rules");
  }
};

LogicalResult SplitMatrixRules::checkUpdate(UpdateOp update, StateOp parameter,
                                            func::FuncOp rule) {
  auto whole = cast<RankedTensorType>(rule.getArgument(0).getType());
  if (parameter.getGlobalType().getShape() != whole.getShape())
    return update.emitOpError()
           << "is by a rule of " << whole << ", but the parameter is "
           << parameter.getGlobalType();
  if (update.getStaged() || parameter.getOnHost())
    return update.emitOpError(
        "is by a rule that looks at the whole matrix, which has to be on the "
        "device with its states; use offload=none");
  if (parameter.getShardDim().value_or(0) != 0)
    return update.emitOpError("is by a rule that looks at the whole matrix, "
                              "which has to be split on dimension 0");
  return success();
}

/// Updates by one rule, whose parameters are split alike, share the work.
LogicalResult SplitMatrixRules::split(func::FuncOp program,
                                      const SymbolTable &table) {
  llvm::MapVector<std::pair<func::FuncOp, int64_t>, SmallVector<UpdateOp>>
      alike; // by rule and shards
  for (UpdateOp update : program.getOps<UpdateOp>()) {
    auto rule = table.lookup<func::FuncOp>(update.getRule());
    if (!rule || !isMatrixRule(rule))
      continue;
    auto parameter = table.lookup<StateOp>(update.getParameter());
    if (failed(checkUpdate(update, parameter, rule)))
      return failure();
    int64_t shards =
        parameter.getSharding() ? Mesh(update).getNumShards() : int64_t(1);
    alike[{rule, shards}].push_back(update);
  }
  int64_t matrices = 0, rounds = 0;
  double flops = 0; // of a rank
  for (auto &[key, updates] : alike) {
    auto [function, shards] = key;
    FailureOr<MatrixRule> rule = MatrixRule::read(function);
    if (failed(rule))
      return failure();
    for (ArrayRef<UpdateOp> left = updates; !left.empty();) {
      ArrayRef<UpdateOp> round = left.take_front(shards);
      flops += split(round, *rule, shards, table);
      left = left.drop_front(round.size());
      matrices += round.size();
      ++rounds;
    }
    // Another key may have made it: the table is of before.
    auto elements = rule->getElementRule(SymbolTable(getOperation()));
    for (UpdateOp update : updates)
      update.setRule(elements.getSymName());
  }
  if (rounds)
    remark::passed(program.getLoc(),
                   getRemark("matrices").function(program.getSymName()))
        << "updates look at whole matrices"
        << remark::metric("matrices", matrices)
        << remark::metric("per_rank", rounds)
        << remark::metric("gflop_per_rank",
                          llvm::formatv("{0:F3}", flops / 1e9).str());
  eraseDeadOps(program);
  return success();
}

double SplitMatrixRules::split(ArrayRef<UpdateOp> updates,
                               const MatrixRule &rule, int64_t shards,
                               const SymbolTable &table) {
  UpdateOp last = updates.back();
  auto parameter = table.lookup<StateOp>(last.getParameter());
  MatrixRound round(updates, rule, shards, parameter.getUnitAttr());
  round.build();
  remark::passed(last.getLoc(), getRemark("round"))
      << (updates.size() > 1 ? "each rank computes one of these matrices"
                             : "each rank computes this matrix")
      << remark::metric("last_parameter", last.getParameter().str())
      << remark::metric("matrices", int64_t(updates.size()))
      << remark::metric("moved_bytes", round.getMovedBytes());
  return round.getFlops();
}

void SplitMatrixRules::runOnOperation() {
  ModuleOp module = getOperation();
  for (func::FuncOp program : getPrograms(module))
    if (failed(split(program, SymbolTable(module))))
      return signalPassFailure();
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isMatrixRule(function))
      function.erase();
}

} // namespace

// fsdp-split-matrix-rules.

#include "Overlap/MatrixRound.h"

#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/Remarks.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/FormatVariadic.h"

#include <memory>

namespace fsdp {
#define GEN_PASS_DEF_SPLITMATRIXRULES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

class SplitMatrixRules
    : public fsdp::impl::SplitMatrixRulesBase<SplitMatrixRules> {
  void runOnModule() override;
  LogicalResult split(func::FuncOp program, const SymbolTable &table);
  LogicalResult checkUpdate(UpdateOp update, StateOp parameter,
                            func::FuncOp rule);
  static void build(MutableArrayRef<std::unique_ptr<MatrixRound>> rounds);
  static void explain(const MatrixRound &round);
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
  int64_t matrices = 0;
  double flops = 0; // of a rank
  std::vector<std::unique_ptr<MatrixRule>> rules;
  SmallVector<std::unique_ptr<MatrixRound>> rounds;
  for (auto &[key, updates] : alike) {
    auto [function, shards] = key;
    FailureOr<MatrixRule> rule = MatrixRule::read(function);
    if (failed(rule))
      return failure();
    rules.push_back(std::make_unique<MatrixRule>(*rule));
    for (ArrayRef<UpdateOp> left = updates; !left.empty();) {
      ArrayRef<UpdateOp> round = left.take_front(shards);
      UpdateOp last = round.back();
      auto parameter = table.lookup<StateOp>(last.getParameter());
      rounds.push_back(std::make_unique<MatrixRound>(
          round, *rules.back(), shards, parameter.getUnitAttr()));
      left = left.drop_front(round.size());
      matrices += round.size();
    }
  }
  build(rounds);
  for (const auto &round : rounds) {
    explain(*round);
    flops += round->getFlops();
  }
  for (auto [rule, entry] : llvm::zip_equal(rules, alike)) {
    // Another program may have made it: the table is of before.
    auto elements = rule->getElementRule(SymbolTable(getOperation()));
    for (UpdateOp update : entry.second)
      update.setRule(elements.getSymName());
  }
  if (!rounds.empty())
    remark::passed(program.getLoc(),
                   getRemark("matrices").function(program.getSymName()))
        << "updates look at whole matrices"
        << remark::metric("matrices", matrices)
        << remark::metric("per_rank", int64_t(rounds.size()))
        << remark::metric("gflop_per_rank",
                          llvm::formatv("{0:F3}", flops / 1e9).str());
  eraseDeadOps(program);
  return success();
}

/// One round after the other, in the order of the program. While a rank
/// computes a matrix, what it computes next arrives, and what it computed
/// before leaves.
void SplitMatrixRules::build(
    MutableArrayRef<std::unique_ptr<MatrixRound>> rounds) {
  llvm::stable_sort(rounds, [](const auto &a, const auto &b) {
    return a->getLast()->isBeforeInBlock(b->getLast());
  });
  bool isSent = false; // this round's matrices
  for (size_t i = 0; i < rounds.size(); ++i) {
    Operation *here = rounds[i]->getLast();
    if (!isSent)
      rounds[i]->gather(here);
    isSent = i + 1 < rounds.size() && rounds[i + 1]->isReadyBefore(here);
    if (isSent)
      rounds[i + 1]->gather(here);
    rounds[i]->compute(here);
    if (i)
      rounds[i - 1]->finish(here);
  }
  if (!rounds.empty())
    rounds.back()->finish(rounds.back()->getLast());
}

void SplitMatrixRules::explain(const MatrixRound &round) {
  UpdateOp last = round.getLast();
  remark::passed(last.getLoc(), getRemark("round"))
      << (round.getSize() > 1 ? "each rank computes one of these matrices"
                              : "each rank computes this matrix")
      << remark::metric("last_parameter", last.getParameter().str())
      << remark::metric("matrices", int64_t(round.getSize()))
      << remark::metric("moved_bytes", round.getMovedBytes());
}

void SplitMatrixRules::runOnModule() {
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

// fsdp-split-matrix-rules.

#include "Overlap/MatrixRound.h"
#include "PassOptions.h"
#include "Remarks.h"

#include "fsdp/Dialect/FSDP/Mesh.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

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
public:
  using SplitMatrixRulesBase::SplitMatrixRulesBase;

private:
  void runOnModule() override;
  LogicalResult split(func::FuncOp program, const SymbolTable &table,
                      const OpCost &cost);
  using Rounds = SmallVector<std::unique_ptr<MatrixRound>>;

  LogicalResult checkUpdate(UpdateOp update, StateOp parameter,
                            func::FuncOp rule);
  /// Makes the rounds of matrices that fill none by themselves, so many of each
  /// rule in a row.
  static void deal(ArrayRef<MatrixRound::Matrix> matrices, int64_t shards,
                   const SymbolTable &table, const OpCost &cost,
                   Rounds &rounds);
  static void build(MutableArrayRef<std::unique_ptr<MatrixRound>> rounds);
  static void explain(const MatrixRound &round);
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

static std::unique_ptr<MatrixRound>
makeRound(ArrayRef<MatrixRound::Matrix> matrices, int64_t shards,
          const SymbolTable &table) {
  auto round = std::make_unique<MatrixRound>(matrices, shards);
  auto parameter = table.lookup<StateOp>(round->getLast().getParameter());
  round->setUnit(parameter.getUnitAttr());
  return round;
}

/// Rules in the order of what they cost; those that stand side by side may fill
/// rounds together. Of all ways to cut the line of rules, the fastest one.
void SplitMatrixRules::deal(ArrayRef<MatrixRound::Matrix> matrices,
                            int64_t shards, const SymbolTable &table,
                            const OpCost &cost, Rounds &rounds) {
  SmallVector<size_t> ends = {0}; // of each rule's
  for (size_t i = 1; i <= matrices.size(); ++i)
    if (i == matrices.size() || matrices[i].rule != matrices[i - 1].rule)
      ends.push_back(i);
  struct Best {
    double seconds = 0;
    size_t before = 0; // rules that are dealt out apart from the last ones
  };
  SmallVector<Best> best(ends.size()); // of the first rules
  auto forEachRound = [&](size_t begin, size_t end, auto fn) {
    for (auto left = matrices.slice(ends[begin], ends[end] - ends[begin]);
         !left.empty();
         left = left.drop_front(std::min<size_t>(left.size(), shards)))
      fn(makeRound(left.take_front(shards), shards, table));
  };
  double apart = 0;
  for (size_t end = 1; end < ends.size(); ++end)
    for (size_t begin = end; begin-- > 0;) {
      double seconds = 0;
      forEachRound(begin, end,
                   [&](auto round) { seconds += round->getSeconds(cost); });
      if (begin + 1 == end)
        apart += seconds;
      seconds += best[begin].seconds;
      if (begin + 1 == end || seconds < best[end].seconds)
        best[end] = {seconds, begin};
    }
  for (size_t end = best.size() - 1; end; end = best[end].before)
    forEachRound(best[end].before, end,
                 [&](auto round) { rounds.push_back(std::move(round)); });
  if (ends.size() <= 2)
    return;
  UpdateOp last = rounds.back()->getLast();
  bool isTogether = best.back().seconds < apart;
  remarkDecision(isTogether, R::MatrixShapes, last.getLoc())
      << (isTogether ? "ranks compute matrices of several shapes at a time"
                     : "matrices of several shapes are computed one shape "
                       "after the other, which takes no longer")
      << metrics::Matrices(int64_t(matrices.size()))
      << metrics::Shapes(int64_t(ends.size() - 1))
      << metrics::Us(best.back().seconds) << metrics::UsApart(apart);
}

/// Updates by one rule, whose parameters are split alike, share the work; and
/// where they are too few, with those of other rules.
LogicalResult SplitMatrixRules::split(func::FuncOp program,
                                      const SymbolTable &table,
                                      const OpCost &cost) {
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
  Rounds rounds;
  llvm::MapVector<int64_t, SmallVector<MatrixRound::Matrix>> left; // by shards
  for (auto &[key, updates] : alike) {
    auto [function, shards] = key;
    FailureOr<MatrixRule> rule = MatrixRule::read(function);
    if (failed(rule))
      return failure();
    rules.push_back(std::make_unique<MatrixRule>(*rule));
    matrices += updates.size();
    SmallVector<MatrixRound::Matrix> round;
    for (UpdateOp update : updates) {
      round.push_back({update, rules.back().get()});
      if (int64_t(round.size()) < shards)
        continue;
      rounds.push_back(makeRound(round, shards, table));
      round.clear();
    }
    llvm::append_range(left[shards], round);
  }
  for (auto &[shards, of] : left) {
    llvm::stable_sort(of, [&](const auto &a, const auto &b) {
      return a.rule->getSeconds(cost) > b.rule->getSeconds(cost);
    });
    deal(of, shards, table, cost, rounds);
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
    remarkPassed(R::MatrixUpdates, program.getLoc(), program.getSymName())
        << "updates look at whole matrices" << metrics::Matrices(matrices)
        << metrics::PerRank(int64_t(rounds.size()))
        << metrics::GflopPerRank(flops);
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
  remarkPassed(R::MatrixRound, last.getLoc())
      << (round.getSize() > 1 ? "each rank computes one of these matrices"
                              : "each rank computes this matrix")
      << metrics::Shapes(int64_t(round.getNumRules()))
      << metrics::LastParameter(last.getParameter().str())
      << metrics::Matrices(int64_t(round.getSize()))
      << metrics::MovedBytes(round.getMovedBytes());
}

void SplitMatrixRules::runOnModule() {
  ModuleOp module = getOperation();
  cost::Cluster machine;
  if (failed(
          readOptions(module, [&] { machine = readCluster(cluster, module); })))
    return signalPassFailure();
  OpCost cost(module, std::move(machine));
  for (func::FuncOp program : getPrograms(module))
    if (failed(split(program, SymbolTable(module), cost)))
      return signalPassFailure();
  for (auto function :
       llvm::make_early_inc_range(module.getOps<func::FuncOp>()))
    if (isMatrixRule(function))
      function.erase();
}

} // namespace

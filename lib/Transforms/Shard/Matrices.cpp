// Parameters whose rule looks at all of them.

#include "Shard/Matrices.h"

#include "fsdp/Transforms/Programs.h"

using namespace mlir;
using namespace fsdp;

llvm::DenseSet<StateOp> fsdp::getMatrices(ModuleOp module,
                                          const SymbolTable &table) {
  llvm::DenseSet<StateOp> matrices;
  for (func::FuncOp program : getPrograms(module))
    program.walk([&](UpdateOp update) {
      auto rule = table.lookup<func::FuncOp>(update.getRule());
      if (rule && isMatrixRule(rule))
        matrices.insert(table.lookup<StateOp>(update.getParameter()));
    });
  return matrices;
}

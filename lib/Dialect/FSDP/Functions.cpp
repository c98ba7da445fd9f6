// The functions of a module.

#include "fsdp/Dialect/FSDP/Functions.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

using namespace mlir;

bool fsdp::isRule(Operation *function) { return kRuleAttr.isOn(function); }

bool fsdp::isMatrixRule(func::FuncOp function) {
  return isRule(function) && function.getNumArguments() > 0 &&
         isa<RankedTensorType>(function.getArgumentTypes().front());
}

SmallVector<func::FuncOp> fsdp::getPrograms(ModuleOp module) {
  SmallVector<func::FuncOp> programs;
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isDeclaration() && !isRule(function))
      programs.push_back(function);
  return programs;
}

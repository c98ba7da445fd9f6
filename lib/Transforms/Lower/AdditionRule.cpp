// The rule by which gradients are accumulated.

#include "Lower/AdditionRule.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Functions.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp;

func::FuncOp fsdp::getAdditionRule(ModuleOp module, Type elementType) {
  std::string name = "fsdp.accumulate.";
  llvm::raw_string_ostream(name) << elementType;
  if (auto rule = module.lookupSymbol<func::FuncOp>(name))
    return rule;
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  for (auto rule : module.getOps<func::FuncOp>())
    if (isRule(rule))
      builder.setInsertionPointAfter(rule);
  Location loc = NameLoc::get(builder.getStringAttr(name));
  Type tensor = UnrankedTensorType::get(elementType);
  auto rule = func::FuncOp::create(
      builder, loc, name, builder.getFunctionType({tensor, tensor}, tensor));
  rule.setPrivate();
  kRuleAttr.set(rule);
  Block *body = rule.addEntryBlock();
  builder.setInsertionPointToStart(body);
  auto sum =
      aten::CallOp::create(builder, loc, aten::Direction::Forward, "add.Tensor",
                           body->getArguments(), {}, tensor);
  func::ReturnOp::create(builder, loc, sum->getResults());
  return rule;
}

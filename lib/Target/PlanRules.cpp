// The rules of updates.

#include "PlanRules.h"
#include "PlanCalls.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"

using namespace mlir;
using namespace fsdp;

FailureOr<std::unique_ptr<plan::RuleT>>
fsdp::exportRule(func::FuncOp function, const PlanSymbols &symbols,
                 PlanOps::List &calls) {
  auto rule = std::make_unique<plan::RuleT>();
  rule->name = function.getSymName().str();
  rule->operands = function.getNumArguments();
  if (auto missed = kMissedAttr.get(function)) {
    auto state = symbols.states.find(missed.getValue());
    if (state == symbols.states.end())
      return function.emitOpError("counts steps in ")
             << missed << ", which does not exist";
    rule->missed = state->second;
  }
  DenseMap<Value, int> values;
  ScalarTable scalars(symbols);
  auto add = [&](Value value) {
    auto type = dyn_cast<TensorType>(value.getType());
    auto dtype = type ? getDType(type.getElementType()) : std::nullopt;
    if (!dtype)
      return -1;
    values[value] = rule->dtypes.size();
    rule->dtypes.push_back(*dtype);
    return values[value];
  };
  if (!function.getBody().hasOneBlock())
    return function.emitOpError("is a rule without a body of one block");
  for (Value argument : function.getArguments())
    if (add(argument) < 0)
      return function.emitOpError("is a rule with an operand that is no "
                                  "tensor of PyTorch's dtypes");
  for (Operation &op : function.getBody().front()) {
    if (auto end = dyn_cast<func::ReturnOp>(op)) {
      for (Value result : end.getOperands()) {
        if (!values.contains(result))
          return op.emitOpError("gives ")
                 << result.getType() << ", which is no tensor of a rule";
        rule->results.push_back(values.lookup(result));
      }
    } else if (isStepScalar(&op)) {
      if (failed(scalars.add(&op)))
        return failure();
    } else if (auto call = dyn_cast<aten::CallOp>(op)) {
      auto exported =
          exportCall(call, call.getCallee(), call.getInputs(), call.getSlots(),
                     call.getArgs(), values, scalars);
      if (failed(exported))
        return failure();
      for (Value result : call.getResults())
        (*exported)->results.push_back(add(result));
      rule->calls.push_back(std::move(*exported));
      calls.push_back(call);
    } else {
      return op.emitOpError("cannot be in a rule: its body is aten.call and "
                            "step scalars");
    }
  }
  rule->scalars = scalars.take();
  return rule;
}

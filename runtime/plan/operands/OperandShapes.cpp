#include "plan/operands/OperandShapes.h"

#include "plan/FormatText.h"
#include "plan/operands/Operands.h"

using namespace fsdp::plan;

static const Contract *findContract(const std::string &name) {
  for (const Contracts *contracts :
       {&imageContracts, &indexContracts, &layerContracts, &matrixContracts})
    for (const Contract &contract : *contracts)
      if (contract.name == name)
        return &contract;
  return nullptr;
}

bool fsdp::plan::trustsShapes(const std::string &name) {
  return findContract(name) != nullptr;
}

std::string fsdp::plan::misfitOf(const ProgramT &program, const AtenT &call,
                                 const OperatorSchema &schema) {
  const Contract *contract = findContract(call.name);
  if (!contract || contract->holds(Operands(program, call, schema)))
    return "";
  std::string text;
  for (size_t i = 0; i < call.arguments.size(); ++i)
    if (call.arguments[i]->kind == ArgumentKind::Value)
      appendListed(
          text,
          schema.arguments[i].name + " " +
              formatShape(program.values[call.arguments[i]->value]->shape));
  return text;
}

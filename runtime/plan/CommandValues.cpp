#include "plan/CommandValues.h"

using namespace fsdp::plan;

std::vector<int> fsdp::plan::operandsOf(const AtenT &call) {
  std::vector<int> operands;
  auto add = [&](int64_t value) {
    if (value >= 0)
      operands.push_back(static_cast<int>(value));
  };
  for (const auto &argument : call.arguments)
    if (argument->kind == ArgumentKind::Value)
      add(argument->value);
    else if (argument->kind == ArgumentKind::ValueList)
      for (int member : argument->values)
        add(member);
  return operands;
}

Accesses fsdp::plan::accessesOf(const CommandT &command) {
  Accesses found;
  auto add = [](int64_t value, std::vector<int> &to) {
    if (value >= 0)
      to.push_back(static_cast<int>(value));
  };
  const OperationUnion &operation = command.operation;
  if (const AtenT *call = operation.AsAten()) {
    found.reads = operandsOf(*call);
    for (int result : call->results)
      add(result, call->view ? found.views : found.writes);
  } else if (const UpdateT *update = operation.AsUpdate()) {
    add(update->gradient, found.reads);
    for (int value : {update->scale, update->skip, update->staged})
      add(value, found.reads);
    for (int value : update->given)
      add(value, found.reads);
    add(update->staged, found.writes);
  } else if (const CopyT *copy = operation.AsCopy()) {
    for (const auto &piece : copy->pieces) {
      add(piece->source, found.reads);
      add(piece->destination, found.writes);
    }
  } else if (const CollectiveT *collective = operation.AsCollective()) {
    add(collective->source, found.reads);
    add(collective->destination, found.writes);
  }
  return found;
}

std::vector<int> fsdp::plan::valuesOf(const CommandT &command) {
  auto [values, writes, views] = accessesOf(command);
  values.insert(values.end(), writes.begin(), writes.end());
  values.insert(values.end(), views.begin(), views.end());
  return std::move(values);
}

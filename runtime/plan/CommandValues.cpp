#include "plan/CommandValues.h"

using namespace fsdp::plan;

std::vector<int> fsdp::plan::valuesOf(const CommandT &command) {
  std::vector<int> values;
  auto add = [&](int64_t v) {
    if (v >= 0)
      values.push_back(static_cast<int>(v));
  };
  const OperationUnion &operation = command.operation;
  if (const AtenT *call = operation.AsAten()) {
    for (const auto &argument : call->arguments) {
      if (argument->kind == ArgumentKind::Value)
        add(argument->value);
      else if (argument->kind == ArgumentKind::ValueList)
        for (int member : argument->values)
          add(member);
    }
    for (int result : call->results)
      add(result);
  } else if (const UpdateT *update = operation.AsUpdate()) {
    add(update->gradient);
    add(update->scale);
    add(update->skip);
    add(update->staged);
    for (int value : update->given)
      add(value);
  } else if (const CopyT *copy = operation.AsCopy()) {
    for (const auto &piece : copy->pieces) {
      add(piece->source);
      add(piece->destination);
    }
  } else if (const CollectiveT *collective = operation.AsCollective()) {
    add(collective->source);
    add(collective->destination);
  }
  return values;
}

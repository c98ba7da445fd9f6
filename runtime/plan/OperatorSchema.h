// What PyTorch says of an operator, as far as compiler, checker and executor
// ask. The compiler has it in a table, the executor from the dispatcher.
#ifndef FSDP_PLAN_OPERATORSCHEMA_H
#define FSDP_PLAN_OPERATORSCHEMA_H

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp::plan {

enum class SchemaKind : uint8_t {
  Tensor,
  Int,
  Float,
  Bool,
  String,
  Scalar,
  Complex,
  DType,
  Layout,
  MemoryFormat,
  Device,
  Generator,
  Other, // what no graph can hold: script objects, storages, streams
};

/// The type of an argument or a result: a kind, `T?`, `T[]`, `T[]?` or `T?[]`.
struct SchemaType {
  SchemaKind kind = SchemaKind::Other;
  bool list = false;
  bool optional = false;        // `T?`, `T[]?`
  bool optionalMembers = false; // `T?[]`

  bool isTensor() const { return kind == SchemaKind::Tensor; }
  /// As in a schema's text: "Tensor?[]".
  std::string str() const;
};

/// An argument or a result of an operator.
struct SchemaValue {
  std::string name; // of an argument
  SchemaType type;
  std::vector<std::string> sets; // that it may share memory with: PyTorch's "a"
  bool isWritten = false;
  bool hasDefault = false;
};

struct OperatorSchema {
  std::vector<SchemaValue> arguments, results;
};

/// Whether an operator takes an undefined tensor for what its schema calls a
/// `Tensor`: what the attention's forward did not need or give.
bool takesUndefined(std::string_view name, std::string_view argument);

/// A view of its first argument that its schema keeps quiet about, for
/// autograd's sake.
bool isQuietView(std::string_view name);

/// One of torch.optim's fused optimizers that plans call. Its kernel takes each
/// list for as long as the first, and it has a twin that writes into them.
bool isFusedOptimizer(std::string_view name);

/// The operator that makes a tensor of a number of the step. On GPUs, where
/// such a number is in memory alone, no other one takes it.
bool holdsScalar(std::string_view name);

} // namespace fsdp::plan

#endif // FSDP_PLAN_OPERATORSCHEMA_H

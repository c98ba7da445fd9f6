// Schemas of PyTorch's operators.
//
// The table is generated at build time from the installed PyTorch's
// dispatcher, so every operator it has can be used and none is written by hand.

#ifndef FSDP_DIALECT_ATEN_SCHEMA_H
#define FSDP_DIALECT_ATEN_SCHEMA_H

#include "plan/OperatorSchema.h"

#include "llvm/ADT/StringRef.h"

#include <optional>
#include <string>
#include <vector>

namespace fsdp::aten {

using Kind = plan::SchemaKind;
using plan::SchemaType;

/// The alias sets of a value: two values with a set in common may share
/// memory. Names are PyTorch's, "a"; empty where nothing is shared.
struct AliasInfo {
  llvm::StringRef sets;
  bool isWrite = false;

  bool intersects(const AliasInfo &other) const;
};

struct Argument {
  llvm::StringRef name;
  SchemaType type;
  AliasInfo alias;
  /// The default value: "none", or a letter for its type and its text:
  /// `b1`, `i-3`, `f1e-05`, `smean`, `I0,1`. Absent: the argument is required.
  std::optional<llvm::StringRef> defaultText;
};

struct Result {
  SchemaType type;
  AliasInfo alias;
};

enum Tag : unsigned {
  kPointwise = 1u << 0,
  kNondeterministicSeeded = 1u << 1,
  kViewCopy = 1u << 2,
  kInplaceView = 1u << 3,
  kCore = 1u << 4,
  kDataDependentOutput = 1u << 5,
  kDynamicOutputShape = 1u << 6,
  kReduction = 1u << 7,
  kOnCuda = 1u << 8, // has a kernel for GPUs in the installed PyTorch
};

struct Schema {
  llvm::StringRef name;     // with its namespace: "aten::add"
  llvm::StringRef overload; // "Tensor", or empty
  unsigned tags = 0;
  std::vector<Argument> arguments;
  std::vector<Result> results;

  bool hasTag(Tag tag) const { return tags & tag; }
  const Argument *findArgument(llvm::StringRef name) const;
  /// The name as `aten.call` writes it: "add.Tensor", "prims::iota".
  std::string callee() const;
};

/// The schema of "aten::add", "Tensor"; null where there is none.
const Schema *lookup(llvm::StringRef name, llvm::StringRef overload);

/// The schema of a name as `aten.call` writes it: "add.Tensor".
const Schema *lookup(llvm::StringRef callee);

/// The same as a plan's checker asks for it.
std::optional<plan::OperatorSchema>
findOperatorSchema(const std::string &name, const std::string &overload);

/// How to mend a callee that is not in the table: the overloads that its name
/// has, or the names nearest to it. Empty where nothing is near.
std::string suggest(llvm::StringRef callee);

} // namespace fsdp::aten

#endif // FSDP_DIALECT_ATEN_SCHEMA_H

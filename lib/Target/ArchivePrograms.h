// The programs of fsdp.json, and the types of what they compute with.

#ifndef FSDP_LIB_TARGET_ARCHIVEPROGRAMS_H
#define FSDP_LIB_TARGET_ARCHIVEPROGRAMS_H

#include "ArchiveMetadata.h"
#include "JsonReader.h"

#include <set>

namespace fsdp {

/// The name of a state or an input. Throws ArchiveError where it is empty.
std::string readFqn(const JsonReader &json);

/// The fields `dtype`, `shape` and `strides`. Throws ArchiveError where one is
/// missing, or no tensor of at most 2^48 elements has them.
TensorInfo readTensor(const JsonReader &json);

/// A name of a value: [A-Za-z_][A-Za-z0-9_]*. Throws ArchiveError.
std::string readName(const JsonReader &json);

/// "float32" and the like. Throws ArchiveError.
std::string readDtype(const JsonReader &json);

/// The values that a program has defined so far.
class DefinedValues {
public:
  explicit DefinedValues(const ProgramInfo &program) : program(program) {}

  /// Throws ArchiveError, at `at`, where `values` does not describe the name or
  /// another value has it.
  void define(const std::string &name, const JsonReader &at);
  bool has(const std::string &name) const { return names.count(name); }

private:
  const ProgramInfo &program;
  std::set<std::string> names;
};

/// Throws ArchiveError where a field is missing or ill-typed, a name is given
/// twice or nowhere, or the loss is not the first of the results.
ProgramInfo readProgram(const JsonReader &json);

/// Every argument and result of program `name` names a state or an input that
/// there is, with its type; else throws ArchiveError.
void checkReferences(const std::string &name, ProgramInfo &program,
                     const ArchiveMetadata &metadata);

/// Every variant is one of a program that there is, and has gradients of the
/// same parameters; else throws ArchiveError.
void checkVariants(const ArchiveMetadata &metadata);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_ARCHIVEPROGRAMS_H

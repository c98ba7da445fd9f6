// An archive as plain data.
//
// What the two halves of the import share: PyTorch's headers and MLIR's never
// meet in one file.

#ifndef FSDP_LIB_TARGET_TORCHGRAPH_H
#define FSDP_LIB_TARGET_TORCHGRAPH_H

#include "Error.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace fsdp {

/// An archive that cannot be imported. The message is complete: the fact, then
/// the fix.
struct ArchiveError : Error {
  using Error::Error;
};

/// An argument of a node: a value of the graph, a constant, or a list.
struct TorchOperand {
  enum class Kind {
    None,
    Value,
    Item, // what the value holds
    Int,
    Float,
    Bool,
    String,
    Complex,
    Device,
    List
  };
  Kind kind = Kind::None;
  std::string text; // the value's name, or the string
  int64_t integer = 0;
  double real = 0.0, imaginary = 0.0;
  std::vector<TorchOperand> members;
};

struct TorchNode {
  std::string op; // "aten::mm"
  std::vector<TorchOperand> operands;
  /// One name per tensor: a list counts each of its members, without names
  /// where nothing reads it.
  std::vector<std::string> results;
};

/// One method. Value names are without the `.N` that loading adds.
struct TorchGraph {
  std::vector<std::string> arguments;
  std::vector<TorchNode> nodes;
  std::vector<std::string> results;
};

/// The records of an archive, and its methods.
class TorchArchive {
public:
  virtual ~TorchArchive() = default;

  /// Names of all records, without the archive's top folder.
  const std::vector<std::string> &getRecordNames() const { return names; }
  const std::string &getRecord(const std::string &name) const;

  /// Parses the methods as TorchScript, in the order of their names here.
  /// Throws ArchiveError: a method is missing, has control flow, or an
  /// argument that no graph of tensors has.
  virtual std::vector<TorchGraph>
  readGraphs(const std::vector<std::string> &methods) const = 0;

protected:
  std::vector<std::string> names;
  std::vector<std::string> records;
};

/// What libfsdp_archive exports: PyTorch's reader. Loading PyTorch takes a
/// third of a second, which only an import needs.
struct TorchArchiveLibrary {
  static constexpr const char *file = "libfsdp_archive.so";
  static constexpr const char *symbol = "fsdp_archive_library";
  static constexpr const char *otherwise =
      "cannot be read without the library beside this program; build again";

  /// `bytes` must outlive the archive, which the caller owns. Throws
  /// ArchiveError where they are not a whole archive.
  TorchArchive *(*open)(std::string_view bytes);
};

/// Opens an archive by libfsdp_archive. Throws ArchiveError as that does, and
/// where there is no such library.
std::unique_ptr<TorchArchive> openTorchArchive(std::string_view bytes);

} // namespace fsdp

#endif // FSDP_LIB_TARGET_TORCHGRAPH_H

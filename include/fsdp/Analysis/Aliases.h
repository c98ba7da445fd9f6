// Which values of a program are the same memory.

#ifndef FSDP_ANALYSIS_ALIASES_H
#define FSDP_ANALYSIS_ALIASES_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/IR/Block.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace fsdp {

/// Bytes from the first to past the last element of a static tensor: 0 where
/// it has none.
int64_t getSpanBytes(mlir::RankedTensorType type);

/// The tensor that is in memory for a value: its own type, a future's, or none
/// for what is not memory (`none`, scalars).
std::optional<mlir::RankedTensorType> getMemoryType(mlir::Value value);

/// The memory of a block's values. A view is memory of the value it looks
/// into, a `fsdp.wait` of the collective it ends, what a `fsdp.update` gives of
/// the staged parameter that it changes: their root. A root may be
/// part of a bucket, which makes a copy in or out of the bucket unnecessary:
///
/// - a member of a pack of one block, where the member is all of the bytes of
///   what an aten.call computes, in row-major order (as t(t(x)) is), and the
///   pack takes that memory once and no other pack does;
/// - an output of an unpack of one block of what a collective received.
class Aliases {
public:
  struct Part {
    mlir::Value whole;
    int64_t offset; // bytes
  };

  explicit Aliases(mlir::Block &block);

  /// The value whose memory `value` is, or itself.
  mlir::Value getRoot(mlir::Value value) const;
  /// What a root is part of; nothing where it is memory of its own.
  std::optional<Part> getPart(mlir::Value root) const;
  /// Why `input`, a `member` of a pack, is copied into its bucket; nothing
  /// where it is a part of it.
  std::optional<llvm::StringRef> getReasonForCopy(mlir::Value input,
                                                  MemberAttr member) const;
  /// The value that owns the bytes of `value`: its root's whole, or its root.
  mlir::Value getOwner(mlir::Value value) const;
  /// The root of `value` where the value's elements in row-major order are all
  /// of the root's bytes; null where they are not.
  mlir::Value getSameBytes(mlir::Value value) const;

private:
  void addParts(PackOp pack);
  void addParts(UnpackOp unpack);

  llvm::DenseMap<mlir::Value, mlir::Value> roots; // of aliases only
  llvm::DenseMap<mlir::Value, Part> parts;        // of roots
  llvm::DenseMap<mlir::Value, unsigned> packed;   // times, of roots
};

} // namespace fsdp

#endif // FSDP_ANALYSIS_ALIASES_H

// Where the members of a bucket lie.

#ifndef FSDP_LIB_TRANSFORMS_OVERLAP_BUCKETLAYOUT_H
#define FSDP_LIB_TRANSFORMS_OVERLAP_BUCKETLAYOUT_H

#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace fsdp {

/// Where the members of a bucket lie in one rank's piece; offsets and sizes in
/// bytes.
struct BucketLayout {
  llvm::SmallVector<int64_t> offsets, bytes;
  int64_t pieceBytes = 0;

  explicit BucketLayout(llvm::ArrayRef<mlir::RankedTensorType> localTypes) {
    for (mlir::RankedTensorType type : localTypes) {
      offsets.push_back(pieceBytes);
      bytes.push_back(getTensorBytes(type));
      pieceBytes = llvm::alignTo(pieceBytes + bytes.back(), kAlignment);
    }
    // Members without elements still make a bucket.
    pieceBytes = std::max(pieceBytes, kAlignment);
  }

  /// The table of members in a bucket of this many pieces.
  mlir::ArrayAttr getMembers(mlir::Builder &builder, int64_t pieces) const {
    llvm::SmallVector<mlir::Attribute> members;
    for (auto [offset, size] : llvm::zip_equal(offsets, bytes))
      members.push_back(
          MemberAttr::get(builder.getContext(), offset, size, pieces));
    return builder.getArrayAttr(members);
  }
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_OVERLAP_BUCKETLAYOUT_H

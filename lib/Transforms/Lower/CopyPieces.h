// Copies of several pieces, under construction.

#ifndef FSDP_LIB_TRANSFORMS_LOWER_COPYPIECES_H
#define FSDP_LIB_TRANSFORMS_LOWER_COPYPIECES_H

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/PlanTypes.h"

#include "mlir/IR/Builders.h"

namespace fsdp {

/// The pieces that become one copy.
class CopyPieces {
public:
  /// With `owners` each source has a part for each of so many neighbours.
  explicit CopyPieces(int64_t owners = 1) : owners(owners) {}

  /// Adds `blocks` blocks of `bytes`; offsets and strides are bytes too.
  /// Without `from` the blocks become zero. With `shards` these ranks alone
  /// copy them.
  void add(mlir::Value from, mlir::Value to, int64_t bytes, int64_t blocks = 1,
           int64_t fromOffset = 0, int64_t toOffset = 0, int64_t fromStride = 0,
           int64_t toStride = 0, ShardsAttr shards = {}) {
    if (!bytes)
      return;
    bool many = blocks > 1;
    int64_t source = from ? indexOf(sources, from) : -1;
    pieces.push_back(PieceAttr::get(to.getContext(), source,
                                    indexOf(destinations, to), bytes, blocks,
                                    fromOffset, toOffset, many ? fromStride : 0,
                                    many ? toStride : 0, owners, shards));
  }

  /// Makes the copy, where there is anything to copy.
  void create(mlir::OpBuilder &builder, mlir::Location loc,
              int64_t stream = plan::computeStream) const {
    if (!pieces.empty())
      CmdCopyOp::create(builder, loc, sources, destinations,
                        builder.getArrayAttr(pieces), stream);
  }

private:
  static int64_t indexOf(llvm::SmallVector<mlir::Value> &values,
                         mlir::Value value) {
    auto *found = llvm::find(values, value);
    int64_t index = found - values.begin();
    if (found == values.end())
      values.push_back(value);
    return index;
  }

  int64_t owners;
  llvm::SmallVector<mlir::Value> sources, destinations;
  llvm::SmallVector<mlir::Attribute> pieces;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_LOWER_COPYPIECES_H

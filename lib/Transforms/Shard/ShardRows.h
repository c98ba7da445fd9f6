// Tensors that are split on another dimension than the first, as rows that
// ranks exchange.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_SHARDROWS_H
#define FSDP_LIB_TRANSFORMS_SHARD_SHARDROWS_H

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/IR/Builders.h"

namespace fsdp {

/// The ranks' parts of `whole`, split on dimension `dim`, one after the other
/// in dimension 0: [a, b, …] becomes [shards * a, b / shards, …] for dim 1.
/// `direction` is that of the calls which it takes.
mlir::Value partsToRows(mlir::OpBuilder &builder, mlir::Value whole,
                        int64_t dim, int64_t shards, aten::Direction direction);

/// The inverse: the tensor of type `whole` that has these parts.
mlir::Value rowsToWhole(mlir::OpBuilder &builder, mlir::Value rows,
                        mlir::RankedTensorType whole, int64_t dim,
                        int64_t shards, aten::Direction direction);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_SHARDROWS_H

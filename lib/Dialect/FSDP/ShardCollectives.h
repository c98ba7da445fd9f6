// What the shard dialect's collectives say of themselves.

#ifndef FSDP_LIB_DIALECT_FSDP_SHARDCOLLECTIVES_H
#define FSDP_LIB_DIALECT_FSDP_SHARDCOLLECTIVES_H

namespace mlir {
class MLIRContext;
} // namespace mlir

namespace fsdp {

/// Lets passes ask `shard.all_gather`, `shard.reduce_scatter` and
/// `shard.all_reduce` as collectives. The shard dialect is loaded by then.
void attachShardCollectives(mlir::MLIRContext &context);

} // namespace fsdp

#endif // FSDP_LIB_DIALECT_FSDP_SHARDCOLLECTIVES_H

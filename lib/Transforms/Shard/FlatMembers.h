// The parameters that will lie in flat ones.

#ifndef FSDP_LIB_TRANSFORMS_SHARD_FLATMEMBERS_H
#define FSDP_LIB_TRANSFORMS_SHARD_FLATMEMBERS_H

#include "BucketSizes.h"

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/MapVector.h"

namespace fsdp {

/// A parameter that will lie in a flat one.
struct Member {
  StateOp state;
  llvm::SmallVector<StateOp>
      optimizer; // its states, in the order of the module
  /// One in each program that trains it, in their order; none: it is frozen, or
  /// no loss reaches it.
  llvm::SmallVector<UpdateOp, 1> updates;
  mlir::Type gathered; // of elements, where it is cast to be gathered
  unsigned bucket = 0; // of its unit
  int64_t offset = 0;  // elements, in the whole flat parameter
};

/// By parameter, in the order of the module.
using FlatMembers = llvm::MapVector<StateOp, Member>;

/// Finds the sharded parameters, their optimizer states and their updates.
/// Fails where one could not be laid out, with an error at its op.
mlir::LogicalResult collectMembers(mlir::ModuleOp module,
                                   const mlir::SymbolTable &table,
                                   FlatMembers &members);

/// Cuts units in order of their members' first use in the step. What gathers
/// cost does not count where they are mapped.
void assignBuckets(mlir::ModuleOp module, FlatMembers &members,
                   const BucketSizes &sizes, bool mapped);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_SHARD_FLATMEMBERS_H

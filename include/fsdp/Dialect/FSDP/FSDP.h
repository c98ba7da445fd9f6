// The fsdp dialect.

#ifndef FSDP_DIALECT_FSDP_FSDP_H
#define FSDP_DIALECT_FSDP_FSDP_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/Dialect/Shard/IR/ShardDialect.h"
#include "mlir/Dialect/Shard/IR/ShardOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "plan/ProgramNames.h"
#include "plan/StateNames.h"

#include "fsdp/Dialect/FSDP/FSDPDialect.h.inc"
#include "fsdp/Dialect/FSDP/Interfaces.h"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPTypes.h.inc"

namespace fsdp {

/// The states of a loss scaler.
inline constexpr llvm::StringLiteral kScaleStateName = plan::scaleStateName;
inline constexpr llvm::StringLiteral kGrowthStateName = plan::growthStateName;
inline constexpr llvm::StringLiteral kSkippedStateName = plan::skippedStateName;

/// What outlives a step: parameters, optimizer state, buffers.
struct StateResource : mlir::SideEffects::Resource::Base<StateResource> {
  llvm::StringRef getName() final { return "fsdp.state"; }
};

/// Collectives in flight.
struct CommunicationResource
    : mlir::SideEffects::Resource::Base<CommunicationResource> {
  llvm::StringRef getName() final { return "fsdp.communication"; }
};

/// Bucket members begin at multiples of this many bytes.
constexpr int64_t kAlignment = 64;

/// What is mapped instead of copied is a multiple of this many bytes.
constexpr int64_t kPageBytes = 4096;

/// Bytes of one element: a bool is a byte, a complex number two scalars.
int64_t getElementBytes(mlir::Type elementType);

/// Bytes of a tensor's elements laid out without gaps.
int64_t getTensorBytes(mlir::RankedTensorType type);

/// Whether a type is a tensor of a static shape whose elements have a size, and
/// that has at most 2^62 bytes: one whose bytes can be counted.
bool isMemory(mlir::Type type);
/// Whether these are axes of a mesh that are neighbours, in their order; one at
/// least.
bool areNeighbours(llvm::ArrayRef<int64_t> axes);

} // namespace fsdp

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/FSDPOps.h.inc"

#endif // FSDP_DIALECT_FSDP_FSDP_H

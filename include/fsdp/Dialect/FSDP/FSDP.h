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

#include "fsdp/Dialect/FSDP/FSDPDialect.h.inc"
#include "fsdp/Dialect/FSDP/FSDPEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPAttributes.h.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPTypes.h.inc"

namespace fsdp {

/// On the module: what gradients' norm may be, and the norm's type (1, 2, …,
/// infinity), as array<f64: 1.0, 2.0>; or what their magnitude may be, an f64.
inline constexpr llvm::StringLiteral kClipNormAttrName = "fsdp.clip_grad_norm";
inline constexpr llvm::StringLiteral kClipValueAttrName =
    "fsdp.clip_grad_value";

/// On the module: loss scaling, as {growth_factor = 2.0, backoff_factor = 0.5,
/// growth_interval = 2000 : i64}; and its states.
inline constexpr llvm::StringLiteral kScalerAttrName = "fsdp.scaler";
inline constexpr llvm::StringLiteral kScaleStateName = "fsdp.scaler.scale";
inline constexpr llvm::StringLiteral kGrowthStateName =
    "fsdp.scaler.growth_tracker";
inline constexpr llvm::StringLiteral kSkippedStateName =
    "fsdp.scaler.skipped_steps";

/// On the module: the device that its kernels are for, "cuda"; none: "cpu".
inline constexpr llvm::StringLiteral kDeviceAttrName = "fsdp.device";

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

/// Whether an op starts a collective or a copy: it gives the future that a
/// `fsdp.wait` ends.
inline bool isStart(mlir::Operation *op) {
  return op->getNumResults() == 1 &&
         llvm::isa<FutureType>(op->getResult(0).getType());
}

/// Bytes of a tensor's elements laid out without gaps.
int64_t getTensorBytes(mlir::RankedTensorType type);

} // namespace fsdp

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/FSDPOps.h.inc"

namespace fsdp {

/// The state that a `fsdp.fetch_start` or `fsdp.offload_start` copies into;
/// null for those that copy into memory of their own, and for other ops.
mlir::FlatSymbolRefAttr getStoredState(mlir::Operation *op);

} // namespace fsdp

#endif // FSDP_DIALECT_FSDP_FSDP_H

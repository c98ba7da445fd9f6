// Interfaces: what they share, and what they say of the shard dialect's ops.

#include "ShardCollectives.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/Collectives.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/MLIRContext.h"

using namespace mlir;
using namespace fsdp;

#include "fsdp/Dialect/FSDP/FSDPInterfaces.cpp.inc"

bool fsdp::isStepScalar(Operation *op) {
  return op->hasTrait<StepScalar>() ||
         isa_and_nonnull<arith::ArithDialect, math::MathDialect>(
             op->getDialect());
}

RankedTensorType fsdp::getMovedType(Value value) {
  if (auto future = dyn_cast<FutureType>(value.getType()))
    return future.getType();
  return cast<RankedTensorType>(value.getType());
}

std::optional<uint64_t> fsdp::detail::getGivenStream(Operation *op) {
  if (auto stream = kStreamAttr.get(op))
    return stream.getInt();
  return std::nullopt;
}

#define FSDP_COLLECTIVE(ENUM, ...)                                             \
  static_assert(static_cast<int>(CollectiveKind::ENUM) ==                      \
                static_cast<int>(plan::CollectiveKind::ENUM));
#include "plan/Collectives.def"
#undef FSDP_COLLECTIVE

const plan::CollectiveInfo &
fsdp::detail::getCollectiveInfo(CollectiveKind kind) {
  return plan::infoOf(static_cast<plan::CollectiveKind>(kind));
}

RankedTensorType fsdp::detail::getPieceType(CollectiveKind kind,
                                            RankedTensorType from,
                                            RankedTensorType to) {
  const plan::CollectiveInfo &info = getCollectiveInfo(kind);
  if (info.sends == plan::Pieces::PerRank &&
      info.receives == plan::Pieces::PerRank)
    return RankedTensorType::get(from.getShape().drop_front(),
                                 from.getElementType());
  return from.getNumElements() < to.getNumElements() ? from : to;
}

namespace {

/// A collective of the shard dialect: its unit and region are attributes that
/// fsdp-localize gives it.
template <typename OpT, CollectiveKind kind, CollectiveRole role>
struct ShardCollective
    : CollectiveOpInterface::ExternalModel<ShardCollective<OpT, kind, role>,
                                           OpT> {
  CollectiveKind getKind(Operation *) const { return kind; }
  CollectiveRole getRole(Operation *) const { return role; }
  StringAttr getUnitAttr(Operation *op) const { return kUnitAttr.get(op); }
  std::optional<ProgramRegion> getRegion(Operation *op) const {
    auto region = kRegionAttr.get(op);
    return region ? std::optional(region.getValue()) : std::nullopt;
  }
  SmallVector<int64_t> getMeshAxes(Operation *op) const {
    return llvm::to_vector_of<int64_t>(cast<OpT>(op).getGridAxes());
  }
};

} // namespace

void fsdp::attachShardCollectives(MLIRContext &context) {
  using Kind = CollectiveKind;
  using Role = CollectiveRole;
  shard::AllGatherOp::attachInterface<
      ShardCollective<shard::AllGatherOp, Kind::AllGather, Role::Parameter>>(
      context);
  shard::ReduceScatterOp::attachInterface<ShardCollective<
      shard::ReduceScatterOp, Kind::ReduceScatter, Role::Gradient>>(context);
  shard::AllReduceOp::attachInterface<
      ShardCollective<shard::AllReduceOp, Kind::AllReduce, Role::Gradient>>(
      context);
}

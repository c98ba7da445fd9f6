// Verifiers and effects of the scheduled phase.

#include "fsdp/Dialect/FSDP/FSDP.h"

using namespace mlir;
using namespace fsdp;

// pack, unpack

/// Each of `values` fills its member, members do not overlap, and all lie
/// within the bucket's pieces.
static LogicalResult verifyMembers(Operation *op, RankedTensorType bucket,
                                   TypeRange values, ArrayAttr members) {
  if (values.size() != members.size())
    return op->emitOpError() << "has " << values.size() << " tensors and "
                             << members.size() << " members";
  int64_t bucketBytes = getTensorBytes(bucket), end = 0, blocks = 0;
  for (auto [index, type, attr] :
       llvm::enumerate(values, members.getAsRange<MemberAttr>())) {
    auto tensor = cast<RankedTensorType>(type);
    if (tensor.getEncoding())
      return op->emitOpError()
             << "member " << index << " is not row-major; clone it first";
    if (attr.getBytes() * attr.getBlocks() != getTensorBytes(tensor))
      return op->emitOpError()
             << "member " << index << " has " << attr.getBlocks()
             << " blocks of " << attr.getBytes() << " bytes, but its tensor "
             << getTensorBytes(tensor);
    if (index && attr.getBlocks() != blocks)
      return op->emitOpError()
             << "member " << index << " has " << attr.getBlocks()
             << " blocks, others " << blocks;
    blocks = attr.getBlocks();
    if (attr.getOffset() < end)
      return op->emitOpError()
             << "member " << index << " begins at " << attr.getOffset()
             << ", before the end of the one before it";
    end = attr.getOffset() + attr.getBytes();
    if (bucketBytes % blocks || end > bucketBytes / blocks)
      return op->emitOpError() << "member " << index << " ends at byte " << end
                               << " of a bucket with " << bucketBytes
                               << " bytes in " << blocks << " pieces";
  }
  return success();
}

LogicalResult PackOp::verify() {
  return verifyMembers(*this, cast<RankedTensorType>(getBucket().getType()),
                       getInputs().getTypes(), getMembers());
}

LogicalResult UnpackOp::verify() {
  return verifyMembers(*this, cast<RankedTensorType>(getBucket().getType()),
                       getOutputs().getTypes(), getMembers());
}

LogicalResult FetchStartOp::verify() {
  RankedTensorType to = getFuture().getType().getType();
  if (getMembers() && getInto())
    return emitOpError("copies a bucket into one state");
  if (getMembers())
    return verifyMembers(*this, to, getInputs().getTypes(), *getMembers());
  if (getInputs().size() != 1 || getInputs().front().getType() != to)
    return emitOpError("without members copies one tensor as it is");
  return success();
}

// Collectives

static LogicalResult verifyAllGather(Operation *op, Type input, Type result,
                                     StringRef region) {
  auto in = cast<RankedTensorType>(input), out = cast<RankedTensorType>(result);
  if (in.getRank() != 1 || out.getRank() != 1 ||
      in.getElementType() != out.getElementType())
    return op->emitOpError("gathers a bucket of bytes, tensor<Nxui8>, or one "
                           "dimension of a flat state's elements");
  if (in.getNumElements() == 0 || out.getNumElements() % in.getNumElements())
    return op->emitOpError()
           << "gathers " << in.getNumElements() << " elements per rank into "
           << out.getNumElements() << ", which is not a multiple";
  if (region != "forward" && region != "backward")
    return op->emitOpError() << "has the region \"" << region
                             << "\"; it is \"forward\" or \"backward\"";
  return success();
}

LogicalResult KeepOp::verify() {
  auto in = cast<RankedTensorType>(getInput().getType()),
       out = cast<RankedTensorType>(getResult().getType());
  if (in.getRank() != 1 || out.getRank() != 1 ||
      in.getElementType() != out.getElementType() || !getRanks() ||
      in.getNumElements() != int64_t(getRanks()) * out.getNumElements())
    return emitOpError() << "keeps " << out << ", which is not one of "
                         << getRanks() << " equal parts of " << in;
  return success();
}

static LogicalResult verifyReduceScatter(Operation *op, Type input,
                                         Type result) {
  auto in = cast<RankedTensorType>(input), out = cast<RankedTensorType>(result);
  int64_t piece = out.getRank() == 1 ? out.getDimSize(0) : 0;
  bool fits = in.getRank() == 2   ? in.getDimSize(1) == piece
              : in.getRank() == 1 ? piece && in.getDimSize(0) % piece == 0
                                  : false;
  if (!fits || out.getRank() != 1 ||
      in.getElementType() != out.getElementType())
    return op->emitOpError()
           << "scatters a row to each rank: " << in << " cannot become " << out;
  return success();
}

static LogicalResult verifyAllReduce(Operation *op, Type input,
                                     ReduceOp reduction, double divisor) {
  if (cast<RankedTensorType>(input).getEncoding())
    return op->emitOpError("reduces a tensor that is not row-major; clone it "
                           "first");
  if (reduction == ReduceOp::Max && divisor != 1)
    return op->emitOpError("divides a maximum; only sums are divided");
  return success();
}

LogicalResult AllGatherOp::verify() {
  return verifyAllGather(*this, getInput().getType(), getResult().getType(),
                         getRegion());
}

LogicalResult AllGatherStartOp::verify() {
  return verifyAllGather(*this, getInput().getType(),
                         getFuture().getType().getType(), getRegion());
}

LogicalResult ReduceScatterOp::verify() {
  return verifyReduceScatter(*this, getInput().getType(),
                             getResult().getType());
}

LogicalResult ReduceScatterStartOp::verify() {
  return verifyReduceScatter(*this, getInput().getType(),
                             getFuture().getType().getType());
}

LogicalResult AllReduceOp::verify() {
  return verifyAllReduce(*this, getInput().getType(), getOp(),
                         getDivisor().convertToDouble());
}

LogicalResult AllReduceStartOp::verify() {
  return verifyAllReduce(*this, getInput().getType(), getOp(),
                         getDivisor().convertToDouble());
}

using Effects =
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>;

static void addCommunication(Effects &effects) {
  effects.emplace_back(MemoryEffects::Read::get(),
                       CommunicationResource::get());
  effects.emplace_back(MemoryEffects::Write::get(),
                       CommunicationResource::get());
}

void AllGatherStartOp::getEffects(Effects &effects) {
  addCommunication(effects);
}
void ReduceScatterStartOp::getEffects(Effects &effects) {
  addCommunication(effects);
}
void AllReduceStartOp::getEffects(Effects &effects) {
  addCommunication(effects);
}
FlatSymbolRefAttr fsdp::getStoredState(Operation *op) {
  if (auto fetch = dyn_cast<FetchStartOp>(op))
    return fetch.getIntoAttr();
  if (auto offload = dyn_cast<OffloadStartOp>(op))
    return offload.getIntoAttr();
  return {};
}

/// What is copied into a state changes it.
static void addStore(Effects &effects, FlatSymbolRefAttr into) {
  addCommunication(effects);
  if (into)
    effects.emplace_back(MemoryEffects::Write::get(), into,
                         StateResource::get());
}
void FetchStartOp::getEffects(Effects &effects) {
  addStore(effects, getIntoAttr());
}
void OffloadStartOp::getEffects(Effects &effects) {
  addStore(effects, getIntoAttr());
}
void WaitOp::getEffects(Effects &effects) { addCommunication(effects); }

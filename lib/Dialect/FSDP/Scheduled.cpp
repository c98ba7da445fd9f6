// Verifiers and interfaces of the scheduled phase.

#include "StateAccess.h"

#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Mesh.h"
#include "plan/PlanTypes.h"

using namespace mlir;
using namespace fsdp;

static_assert(kAlignment == plan::placeAlignment,
              "each member of a bucket has a place of its own");

// pack, unpack

/// Each of `values` fills its member, members of a rank do not overlap, and all
/// lie within the bucket's pieces. Members of the same ranks stand together.
static LogicalResult verifyMembers(Operation *op, RankedTensorType bucket,
                                   TypeRange values, ArrayAttr members) {
  if (values.size() != members.size())
    return op->emitOpError() << "has " << values.size() << " tensors and "
                             << members.size() << " members";
  int64_t bucketBytes = getTensorBytes(bucket), end = 0, blocks = 0;
  ShardsAttr shards;
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
    if (index && attr.getShards() != shards) {
      if (!shards || !attr.getShards() ||
          attr.getShards().getFirst() < shards.getEnd())
        return op->emitOpError()
               << "member " << index << " is of ranks that have the one before "
               << "it too; members of some shards stand in their order";
      end = 0;
    }
    shards = attr.getShards();
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

static LogicalResult verifyAllGather(CollectiveOpInterface op) {
  RankedTensorType in = op.getSourceType(), out = op.getDestinationType();
  if (in.getRank() != 1 || out.getRank() != 1 ||
      in.getElementType() != out.getElementType())
    return op->emitOpError("gathers a bucket of bytes, tensor<Nxui8>, or one "
                           "dimension of a flat state's elements");
  if (in.getNumElements() == 0 || out.getNumElements() % in.getNumElements())
    return op->emitOpError()
           << "gathers " << in.getNumElements() << " elements per rank into "
           << out.getNumElements() << ", which is not a multiple";
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

static LogicalResult verifyReduceScatter(CollectiveOpInterface op) {
  RankedTensorType in = op.getSourceType(), out = op.getDestinationType();
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

static LogicalResult verifyAllReduce(CollectiveOpInterface op) {
  if (op.getSourceType().getEncoding())
    return op->emitOpError("reduces a tensor that is not row-major; clone it "
                           "first");
  if (op.getReduceOp() == ReduceOp::Max &&
      op.getDivisor().convertToDouble() != 1)
    return op->emitOpError("divides a maximum; only sums are divided");
  if ((op.getRole() == CollectiveRole::Gradient) != bool(op.getUnitAttr()))
    return op->emitOpError("has a unit if and only if it is of a gradient");
  return success();
}

static LogicalResult verifyAllToAll(CollectiveOpInterface op) {
  RankedTensorType type = op.getSourceType();
  if (type.getRank() == 2 && !type.getEncoding() &&
      type.getElementType().isInteger(8))
    return success();
  return op->emitOpError() << "exchanges a row of bytes per rank, not " << type;
}

LogicalResult AllGatherOp::verify() { return verifyAllGather(*this); }
LogicalResult AllGatherStartOp::verify() { return verifyAllGather(*this); }
LogicalResult ReduceScatterOp::verify() { return verifyReduceScatter(*this); }
LogicalResult ReduceScatterStartOp::verify() {
  return verifyReduceScatter(*this);
}
LogicalResult AllReduceOp::verify() { return verifyAllReduce(*this); }
LogicalResult AllReduceStartOp::verify() { return verifyAllReduce(*this); }
LogicalResult AllToAllOp::verify() { return verifyAllToAll(*this); }
LogicalResult AllToAllStartOp::verify() { return verifyAllToAll(*this); }

// Start forms

StringRef AllGatherOp::getStartName() {
  return AllGatherStartOp::getOperationName();
}
StringRef ReduceScatterOp::getStartName() {
  return ReduceScatterStartOp::getOperationName();
}
StringRef AllReduceOp::getStartName() {
  return AllReduceStartOp::getOperationName();
}
StringRef AllToAllOp::getStartName() {
  return AllToAllStartOp::getOperationName();
}

// Streams

/// Those of gathers and of reductions run beside each other, and sums over
/// replicas beside both.
static uint64_t chooseStreamOf(CollectiveOpInterface op) {
  if (op.getRole() == CollectiveRole::Parameter)
    return plan::gatherStream;
  return Mesh(op).isOver(op, AxisRole::Replicate) ? plan::replicateStream
                                                  : plan::reduceStream;
}

uint64_t AllGatherStartOp::chooseStream() { return chooseStreamOf(*this); }
uint64_t ReduceScatterStartOp::chooseStream() { return chooseStreamOf(*this); }
uint64_t AllReduceStartOp::chooseStream() { return chooseStreamOf(*this); }
uint64_t AllToAllStartOp::chooseStream() { return chooseStreamOf(*this); }
uint64_t FetchStartOp::chooseStream() { return plan::fetchStream; }
uint64_t OffloadStartOp::chooseStream() { return plan::offloadStream; }

/// What is there for a collective or a copy alone, is waited for on its stream.
uint64_t WaitOp::chooseStream() {
  if (!(*this)->hasOneUse())
    return plan::computeStream;
  Operation *reader = *(*this)->user_begin();
  auto start = dyn_cast<StartOpInterface>(reader);
  return start && start.isChained()
             ? cast<TimelineOpInterface>(reader).getStream()
             : uint64_t(plan::computeStream);
}

// Effects

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
void AllToAllStartOp::getEffects(Effects &effects) {
  addCommunication(effects);
}
void FetchStartOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addStateEffects(*this, effects);
}
void OffloadStartOp::getEffects(Effects &effects) {
  addCommunication(effects);
  addStateEffects(*this, effects);
}
void WaitOp::getEffects(Effects &effects) { addCommunication(effects); }

/// What is copied into a state changes it.
static SmallVector<FlatSymbolRefAttr> getStored(StartOpInterface start) {
  FlatSymbolRefAttr into = start.getIntoAttr();
  return into ? SmallVector<FlatSymbolRefAttr>{into}
              : SmallVector<FlatSymbolRefAttr>{};
}
LogicalResult FetchStartOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyStates(*this, tables);
}
LogicalResult OffloadStartOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyStates(*this, tables);
}
SmallVector<FlatSymbolRefAttr> FetchStartOp::getWrittenStates() {
  return getStored(*this);
}
SmallVector<FlatSymbolRefAttr> OffloadStartOp::getWrittenStates() {
  return getStored(*this);
}

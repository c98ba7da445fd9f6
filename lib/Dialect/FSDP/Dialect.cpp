// Registration, attributes and types of fsdp.

#include "ShardCollectives.h"

#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

#include "fsdp/Dialect/FSDP/FSDPDialect.cpp.inc"
#include "fsdp/Dialect/FSDP/FSDPEnums.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPAttributes.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "fsdp/Dialect/FSDP/FSDPTypes.cpp.inc"

#define GET_OP_CLASSES
#include "fsdp/Dialect/FSDP/FSDPOps.cpp.inc"

void FSDPDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "fsdp/Dialect/FSDP/FSDPAttributes.cpp.inc"
      >();
  addTypes<
#define GET_TYPEDEF_LIST
#include "fsdp/Dialect/FSDP/FSDPTypes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "fsdp/Dialect/FSDP/FSDPOps.cpp.inc"
      >();
  attachShardCollectives(*getContext());
}

namespace {
/// A discardable attribute: what it is, in words and as a check.
struct KnownAttribute {
  StringLiteral name;
  StringLiteral what;
  bool (*isValid)(Attribute);
};
} // namespace

template <typename AttrT, bool (*isWellFormed)(AttrT)>
static bool isA(Attribute value) {
  auto typed = dyn_cast<AttrT>(value);
  return typed && isWellFormed(typed);
}
template <typename AttrT> static bool isAny(AttrT) { return true; }

/// An attribute whose value is of its type, and of this form.
template <typename AttrT, bool (*isWellFormed)(AttrT) = isAny<AttrT>>
static constexpr KnownAttribute known(DiscardableAttr<AttrT> attribute,
                                      StringLiteral what) {
  return {attribute.name, what, isA<AttrT, isWellFormed>};
}

static bool isI64(IntegerAttr number) { return number.getType().isInteger(64); }
static bool isCuda(StringAttr text) { return text == "cuda"; }
static bool arePlaces(ArrayAttr array) {
  return llvm::all_of(array, llvm::IsaPred<PlaceAttr, UnitAttr>);
}
static bool areDigests(DictionaryAttr dictionary) {
  return llvm::all_of(dictionary, [](NamedAttribute member) {
    if (auto text = dyn_cast<StringAttr>(member.getValue()))
      return text.size() == 32 &&
             llvm::all_of(text.getValue(), llvm::isHexDigit);
    auto inner = dyn_cast<DictionaryAttr>(member.getValue());
    return inner && areDigests(inner);
  });
}

static constexpr KnownAttribute knownAttributes[] = {
    // On modules.
    known(kPipelineAttr, "a string"),
    known<StringAttr, isCuda>(kDeviceAttr, "\"cuda\", or left out"),
    known(kPinMemoryAttr, "unit"),
    known(kArenasAttr, "array<i64>, bytes"),
    // On functions.
    known(kRuleAttr, "unit"),
    known(kOptimizerAttr, "#fsdp.optimizer"),
    known(kMissedAttr, "a symbol"),
    known(kScheduleAttr, "a string"),
    known(kVariantOfAttr, "the symbol of a program"),
    known(kTurnAttr, "a string, the turn's name"),
    known(kNextAttr, "the symbol of a program"),
    known<IntegerAttr, isI64>(kLiveBytesAttr, "an i64"),
    known<IntegerAttr, isI64>(kHostLiveBytesAttr, "an i64"),
    known<DictionaryAttr, areDigests>(
        kMeaningAttr, "dictionaries of digests, 32 hexadecimal digits"),
    // On ops of programs.
    known(kCotangentAttr, "unit"),
    known(kPrecisionCastAttr, "unit"),
    known(kUnitAttr, "a string, the unit's name"),
    known(kRegionAttr, "a #fsdp<region ...>"),
    known<IntegerAttr, isI64>(kStreamAttr, "an i64"),
    known(kShardsAttr, "an #fsdp.shards"),
    known<ArrayAttr, arePlaces>(
        kPlacesAttr, "an array of #fsdp.place, or unit, one per result"),
    // On states.
    known(kPlaceAttr, "an #fsdp.place"),
    known<IntegerAttr, isI64>(kShardDimAttr, "an i64"),
};

/// On the arguments and results of programs.
static constexpr KnownAttribute knownArgumentAttributes[] = {
    known(kInputAttr, "a string, the input's name"),
    known(kRepeatAttr, "unit"),
    known(kPlaceAttr, "an #fsdp.place"),
};
static constexpr KnownAttribute knownResultAttributes[] = {
    known(kOutputAttr, "a string, the output's name"),
};

static LogicalResult verifyKnown(Operation *op, NamedAttribute attribute,
                                 ArrayRef<KnownAttribute> all) {
  for (const KnownAttribute &known : all)
    if (known.name == attribute.getName().getValue())
      return known.isValid(attribute.getValue())
                 ? success()
                 : op->emitOpError() << "has " << attribute.getValue() << " as "
                                     << known.name << "; it is " << known.what;
  return op->emitOpError() << "has " << attribute.getName().getValue()
                           << ", which is no attribute of the fsdp dialect";
}

/// A run calls programs: whatever has inputs and outputs is no private
/// function, which could be dropped as unused.
static LogicalResult verifyProgramAttribute(Operation *op,
                                            NamedAttribute attribute,
                                            ArrayRef<KnownAttribute> all) {
  if (auto symbol = dyn_cast<SymbolOpInterface>(op);
      symbol && symbol.isPrivate())
    return op->emitOpError()
           << "is private and has " << attribute.getName().getValue()
           << ", as programs have; a program is public";
  return verifyKnown(op, attribute, all);
}

/// What a mesh's axes are for.
static LogicalResult verifyAxes(Operation *op, Attribute value) {
  auto grid = dyn_cast<shard::GridOp>(op);
  auto axes = dyn_cast<ArrayAttr>(value);
  if (!grid || !axes || !llvm::all_of(axes, llvm::IsaPred<AxisAttr>) ||
      axes.size() != grid.getShape().size())
    return op->emitOpError() << "has " << value << " as " << kAxesAttr.name
                             << "; a grid has one #fsdp.axis per dimension";
  if (!llvm::all_of(grid.getShape(), [](int64_t size) { return size > 0; }))
    return op->emitOpError("has an axis without ranks; each has one or more");
  llvm::StringSet<> names;
  SmallVector<int64_t> shardAxes, replicaAxes;
  for (auto [i, attr] : llvm::enumerate(axes)) {
    auto axis = cast<AxisAttr>(attr);
    if (!names.insert(axis.getName()).second)
      return op->emitOpError()
             << "has two axes of the name \"" << axis.getName() << "\"";
    (axis.getRole() == AxisRole::Shard ? shardAxes : replicaAxes).push_back(i);
  }
  if (shardAxes.size() != 1)
    return op->emitOpError() << "has " << shardAxes.size()
                             << " axes of the role shard; states are cut over "
                                "one";
  // So that a sum over all of them is one collective, in the order of ranks.
  if (!replicaAxes.empty() && !areNeighbours(replicaAxes))
    return op->emitOpError()
           << "has the axis \"" << cast<AxisAttr>(axes[shardAxes[0]]).getName()
           << "\" of shards between those of replicas; replicas' axes are "
              "neighbours";
  return success();
}

/// What moves with a unit is memory, as what our own collectives move.
static LogicalResult verifyMoved(Operation *op) {
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective || (isMemory(collective.getSourceType()) &&
                      isMemory(collective.getDestinationType())))
    return success();
  return op->emitOpError("moves a tensor of a dynamic shape, or of more than "
                         "2^62 bytes");
}

LogicalResult FSDPDialect::verifyOperationAttribute(Operation *op,
                                                    NamedAttribute attribute) {
  if (attribute.getName() == kAxesAttr.name)
    return verifyAxes(op, attribute.getValue());
  if (attribute.getName() == kUnitAttr.name && failed(verifyMoved(op)))
    return failure();
  return verifyKnown(op, attribute, knownAttributes);
}

LogicalResult FSDPDialect::verifyRegionArgAttribute(Operation *op, unsigned,
                                                    unsigned,
                                                    NamedAttribute attribute) {
  return verifyProgramAttribute(op, attribute, knownArgumentAttributes);
}

LogicalResult
FSDPDialect::verifyRegionResultAttribute(Operation *op, unsigned, unsigned,
                                         NamedAttribute attribute) {
  return verifyProgramAttribute(op, attribute, knownResultAttributes);
}

int64_t fsdp::getElementBytes(Type elementType) {
  if (auto complex = dyn_cast<ComplexType>(elementType))
    return 2 * getElementBytes(complex.getElementType());
  if (!elementType.isIntOrFloat())
    return 0;
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

int64_t fsdp::getTensorBytes(RankedTensorType type) {
  return type.getNumElements() * getElementBytes(type.getElementType());
}

bool fsdp::areNeighbours(ArrayRef<int64_t> axes) {
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i] != axes[i - 1] + 1)
      return false;
  return !axes.empty() && axes.front() >= 0;
}

bool fsdp::isMemory(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return false;
  constexpr int64_t most = int64_t(1) << 62;
  int64_t bytes = getElementBytes(tensor.getElementType());
  if (!bytes || llvm::is_contained(tensor.getShape(), 0))
    return bytes;
  for (int64_t size : tensor.getShape())
    if (size > most / bytes)
      return false;
    else
      bytes *= size;
  return true;
}

LogicalResult FutureType::verify(function_ref<InFlightDiagnostic()> emitError,
                                 RankedTensorType type) {
  if (isMemory(type))
    return success();
  return emitError() << "a future is of a tensor of a static shape and of at "
                        "most 2^62 bytes, not of "
                     << type;
}

LogicalResult ShardsAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t first, int64_t end) {
  if (0 <= first && first < end && end <= UINT32_MAX)
    return success();
  return emitError() << "some shards are at least one, not those from " << first
                     << " up to " << end;
}

LogicalResult MemberAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 int64_t offset, int64_t bytes, int64_t blocks,
                                 ShardsAttr) {
  if (offset < 0 || offset % kAlignment)
    return emitError() << "a member's offset is a multiple of " << kAlignment
                       << ", not " << offset;
  if (bytes < 0 || blocks < 1)
    return emitError() << "a member has at least one block of at least 0 "
                          "bytes, not "
                       << blocks << " of " << bytes;
  return success();
}

LogicalResult PieceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t source, int64_t destination,
                                int64_t bytes, int64_t blocks,
                                int64_t sourceOffset, int64_t destinationOffset,
                                int64_t sourceStride, int64_t destinationStride,
                                int64_t owners, ShardsAttr shards) {
  if (source < -1 || destination < 0)
    return emitError() << "a piece has a source or -1, and a destination, not "
                       << source << " and " << destination;
  if (bytes < 1 || blocks < 1)
    return emitError() << "a piece has at least one block of at least one "
                          "byte, not "
                       << blocks << " of " << bytes;
  if (sourceOffset < 0 || destinationOffset < 0 || sourceStride < 0 ||
      destinationStride < 0)
    return emitError() << "a piece's offsets and strides are not negative";
  if (owners < 1 || (owners > 1 && source < 0))
    return emitError() << "a piece is one of at least one owner's, of a source";
  if (shards && owners > 1)
    return emitError()
           << "a piece is one of several owners', or of some shards";
  return success();
}

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               InitKind kind, DenseF64ArrayAttr values,
                               int64_t draw, int64_t offset,
                               DenseI64ArrayAttr sizes,
                               DenseI64ArrayAttr strides) {
  // By kind.
  constexpr size_t wanted[] = {1, 2, 2, 1, 1, 2, 0};
  size_t given = values ? values.size() : 0;
  if (given != wanted[static_cast<size_t>(kind)])
    return emitError() << stringifyInitKind(kind) << " takes "
                       << wanted[static_cast<size_t>(kind)] << " values, not "
                       << given;
  if (bool(sizes) != bool(strides) || (sizes && sizes.size() != strides.size()))
    return emitError() << "sizes and strides go together, one of each per "
                          "dimension";
  if (draw < 0 || draw > UINT32_MAX || offset < 0)
    return emitError() << "a draw is a number of 32 bits, an offset is not "
                          "negative";
  return success();
}

LogicalResult PlaceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                int64_t arena, int64_t offset, int64_t bytes) {
  if (arena < 0 || bytes < 0)
    return emitError() << "a place has a non-negative arena and length";
  if (offset < 0 || offset % kAlignment)
    return emitError() << "a place's offset is a multiple of " << kAlignment
                       << ", not " << offset;
  return success();
}

// Registration, attributes and types of fsdp.

#include "ShardCollectives.h"

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

static bool isI64(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isInteger(64);
}
template <typename AttrT> static bool is(Attribute value) {
  return isa<AttrT>(value);
}
template <typename AttrT> static bool isArrayOf(Attribute value) {
  auto array = dyn_cast<ArrayAttr>(value);
  return array && llvm::all_of(array, [](Attribute member) {
           return isa<AttrT, UnitAttr>(member);
         });
}
static bool areDigests(Attribute value) {
  if (auto text = dyn_cast<StringAttr>(value))
    return text.size() == 32 && llvm::all_of(text.getValue(), llvm::isHexDigit);
  auto dictionary = dyn_cast<DictionaryAttr>(value);
  return dictionary && llvm::all_of(dictionary, [](NamedAttribute member) {
           return areDigests(member.getValue());
         });
}

static constexpr KnownAttribute knownAttributes[] = {
    // On modules.
    {"fsdp.pipeline", "a string", is<StringAttr>},
    {kDeviceAttrName, "\"cuda\", or left out",
     [](Attribute value) {
       auto text = dyn_cast<StringAttr>(value);
       return text && text == "cuda";
     }},
    {"fsdp.pin_memory", "unit", is<UnitAttr>},
    {"fsdp.arenas", "array<i64>, bytes", is<DenseI64ArrayAttr>},
    // On functions.
    {kRuleAttrName, "unit", is<UnitAttr>},
    {kOptimizerAttrName, "#fsdp.optimizer", is<OptimizerAttr>},
    {"fsdp.schedule", "a string", is<StringAttr>},
    {kVariantOfAttrName, "the symbol of a program", is<FlatSymbolRefAttr>},
    {kTurnAttrName, "a string, the turn's name", is<StringAttr>},
    {kNextAttrName, "the symbol of a program", is<FlatSymbolRefAttr>},
    {"fsdp.live_bytes", "an i64", isI64},
    {"fsdp.host_live_bytes", "an i64", isI64},
    {"fsdp.meaning", "dictionaries of digests, 32 hexadecimal digits",
     areDigests},
    // On ops of programs.
    {kCotangentAttrName, "unit", is<UnitAttr>},
    {"fsdp.precision_cast", "unit", is<UnitAttr>},
    {kUnitAttrName, "a string, the unit's name", is<StringAttr>},
    {kRegionAttrName, "a #fsdp<region ...>", is<ProgramRegionAttr>},
    {kStreamAttrName, "an i64", isI64},
    {kShardsAttrName, "an #fsdp.shards", is<ShardsAttr>},
    {"fsdp.places", "an array of #fsdp.place, or unit, one per result",
     isArrayOf<PlaceAttr>},
    // On states.
    {"fsdp.place", "an #fsdp.place", is<PlaceAttr>},
    {kShardDimAttrName, "an i64", isI64},
};

/// On the arguments and results of programs.
static constexpr KnownAttribute knownArgumentAttributes[] = {
    {kInputAttrName, "a string, the input's name", is<StringAttr>},
    {kRepeatAttrName, "unit", is<UnitAttr>},
    {"fsdp.place", "an #fsdp.place", is<PlaceAttr>},
};
static constexpr KnownAttribute knownResultAttributes[] = {
    {kOutputAttrName, "a string, the output's name", is<StringAttr>},
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
    return op->emitOpError() << "has " << value << " as " << kAxesAttrName
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
  if (attribute.getName() == kAxesAttrName)
    return verifyAxes(op, attribute.getValue());
  if (attribute.getName() == kUnitAttrName && failed(verifyMoved(op)))
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

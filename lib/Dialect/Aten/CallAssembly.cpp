// The text form of aten.call.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/ItemSlot.h"

#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace fsdp::aten;

using Operand = OpAsmParser::UnresolvedOperand;

/// operand-list ::= (entry (`,` entry)*)?
/// entry        ::= ssa-use | `item` ssa-use | `none` | `[` operand-list `]`
static ParseResult parseEntries(OpAsmParser &parser,
                                OpAsmParser::Delimiter delimiter, bool nested,
                                SmallVectorImpl<Operand> &operands,
                                SmallVectorImpl<int32_t> &slots) {
  return parser.parseCommaSeparatedList(delimiter, [&]() -> ParseResult {
    if (succeeded(parser.parseOptionalKeyword("none"))) {
      slots.push_back(0);
      return success();
    }
    Operand operand;
    if (!nested && succeeded(parser.parseOptionalKeyword("item"))) {
      slots.push_back(kItemSlot);
      operands.emplace_back();
      return parser.parseOperand(operands.back());
    }
    OptionalParseResult parsed = parser.parseOptionalOperand(operand);
    if (parsed.has_value()) {
      if (failed(*parsed))
        return failure();
      operands.push_back(operand);
      slots.push_back(1);
      return success();
    }
    if (nested)
      return parser.emitError(parser.getCurrentLocation(),
                              "expected an operand or 'none'");
    SmallVector<int32_t> members;
    if (parseEntries(parser, OpAsmParser::Delimiter::Square, true, operands,
                     members))
      return failure();
    slots.push_back(2 + members.size());
    slots.append(members);
    return success();
  });
}

/// facts ::= `backward`? (`recompute` `(` string `)`)?
///           (`checkpoint` `(` integer `)`)? `must_save`?
///           `accumulates`? (`measured` `(` float `)`)?
static ParseResult parseFacts(OpAsmParser &parser,
                              CallOp::Properties &properties) {
  Builder &builder = parser.getBuilder();
  if (succeeded(parser.parseOptionalKeyword("backward")))
    properties.backward = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("recompute")) &&
      (parser.parseLParen() || parser.parseAttribute(properties.recompute) ||
       parser.parseRParen()))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("checkpoint"))) {
    int64_t number;
    if (parser.parseLParen() || parser.parseInteger(number) ||
        parser.parseRParen())
      return failure();
    properties.checkpoint = builder.getI64IntegerAttr(number);
  }
  if (succeeded(parser.parseOptionalKeyword("must_save")))
    properties.must_save = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("accumulates")))
    properties.accumulates = builder.getUnitAttr();
  if (succeeded(parser.parseOptionalKeyword("measured")) &&
      (parser.parseLParen() ||
       parser.parseAttribute(properties.measured, builder.getF64Type()) ||
       parser.parseRParen()))
    return failure();
  return success();
}

ParseResult CallOp::parse(OpAsmParser &parser, OperationState &result) {
  StringAttr callee;
  SmallVector<Operand> operands;
  SmallVector<int32_t> slots;
  NamedAttrList attributes;
  FunctionType type;
  if (parser.parseAttribute(callee))
    return failure();
  SMLoc operandsLoc = parser.getCurrentLocation();
  Properties &properties = result.getOrAddProperties<Properties>();
  if (parseEntries(parser, OpAsmParser::Delimiter::Paren, false, operands,
                   slots) ||
      parseFacts(parser, properties) ||
      parser.parseOptionalAttrDict(attributes) || parser.parseColonType(type) ||
      parser.resolveOperands(operands, type.getInputs(), operandsLoc,
                             result.operands))
    return failure();

  Builder &builder = parser.getBuilder();
  NamedAttrList args;
  for (NamedAttribute attribute : attributes) {
    bool discardable = attribute.getName().strref().contains('.');
    (discardable ? result.attributes : args).append(attribute);
  }
  properties.callee = callee;
  properties.slots = builder.getDenseI32ArrayAttr(slots);
  properties.args = args.getDictionary(builder.getContext());
  result.addTypes(type.getResults());
  return success();
}

/// Prints the operand list, or as much of it as ill-formed slots allow.
static void printEntries(OpAsmPrinter &printer, CallOp op) {
  ArrayRef<int32_t> slots = op.getSlots();
  unsigned next = 0;
  size_t i = 0;
  auto printMember = [&]() {
    int32_t slot = i < slots.size() ? slots[i++] : 0;
    if ((slot == 1 || slot == kItemSlot) && next < op.getInputs().size())
      printer << (slot == 1 ? "" : "item ") << op.getInputs()[next++];
    else
      printer << "none";
  };
  printer << '(';
  while (i < slots.size()) {
    if (i != 0)
      printer << ", ";
    if (slots[i] < 2) {
      printMember();
      continue;
    }
    int32_t members = slots[i++] - 2;
    printer << '[';
    for (int32_t m = 0; m < members && i < slots.size(); ++m) {
      if (m != 0)
        printer << ", ";
      printMember();
    }
    printer << ']';
  }
  printer << ')';
}

void CallOp::print(OpAsmPrinter &printer) {
  printer << ' ' << getCalleeAttr();
  printEntries(printer, *this);
  if (getBackward())
    printer << " backward";
  if (StringAttr region = getRecomputeAttr())
    printer << " recompute(" << region << ')';
  if (std::optional<uint64_t> number = getCheckpoint())
    printer << " checkpoint(" << *number << ')';
  if (getMustSave())
    printer << " must_save";
  if (getAccumulates())
    printer << " accumulates";
  if (FloatAttr seconds = getMeasuredAttr()) {
    printer << " measured(";
    printer.printAttributeWithoutType(seconds);
    printer << ')';
  }
  NamedAttrList attributes(getArgs().getValue());
  attributes.append((*this)->getDiscardableAttrs());
  printer.printOptionalAttrDict(
      attributes.getDictionary(getContext()).getValue());
  printer << " : ";
  printer.printFunctionalType(*this);
}

// One node of a graph.

#include "AtenCallImport.h"

#include "fsdp/Analysis/RematRegions.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/Aten/ItemSlot.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "plan/OperationText.h"

using namespace mlir;
using namespace fsdp;
using aten::Kind;
using OperandKind = TorchOperand::Kind;

Type fsdp::getElementType(MLIRContext *context, StringRef dtype) {
  const plan::DTypeInfo *info = plan::findDType(dtype);
  return info ? aten::getElementType(context, info->dtype) : Type();
}

RankedTensorType fsdp::getTensorType(MLIRContext *context,
                                     const TensorInfo &info) {
  return aten::getTensorType(info.shape, getElementType(context, info.dtype),
                             info.strides);
}

Type fsdp::getValueType(MLIRContext *context, const TensorInfo &info) {
  if (info.anyShape)
    return UnrankedTensorType::get(getElementType(context, info.dtype));
  return getTensorType(context, info);
}

/// PyTorch's number of a dtype (c10::ScalarType), as graphs hold it.
static Type getScalarType(MLIRContext *context, int64_t number) {
  std::optional<plan::DType> dtype = plan::dtypeOfScalarType(number);
  return dtype ? aten::getElementType(context, *dtype) : Type();
}

namespace {
/// The operands and attributes of one call, schema argument by argument.
class CallBuilder {
public:
  CallBuilder(OpBuilder &builder, const TorchNode &node,
              const aten::Schema &schema, const llvm::StringMap<Value> &values)
      : builder(builder), node(node), schema(schema), values(values) {}

  void run();

  SmallVector<Value> operands;
  SmallVector<int32_t> slots;
  SmallVector<NamedAttribute> attributes;
  bool hasGenerator = false;

private:
  [[noreturn]] void fail(const aten::Argument &argument, const Twine &what) {
    throw ArchiveError(E::ArchiveOperator,
                       ("calls " + schema.callee() + " with " + what +
                        " for '" + argument.name + "' of type " +
                        argument.type.str() + "; export again")
                           .str());
  }

  void addTensor(const aten::Argument &argument, const TorchOperand &given);
  void addTensorList(const aten::Argument &argument, const TorchOperand &given);
  void addAttribute(const aten::Argument &argument, const TorchOperand &given);
  void addNumber(const aten::Argument &argument, const TorchOperand &given);
  static bool takesNumber(const aten::Argument &argument);
  Attribute getMember(const aten::Argument &argument,
                      const TorchOperand &given);
  Attribute getList(const aten::Argument &argument, const TorchOperand &given);

  OpBuilder &builder;
  const TorchNode &node;
  const aten::Schema &schema;
  const llvm::StringMap<Value> &values;
  SmallVector<NamedAttribute> leftOut; // defaults that a number could be given
};
} // namespace

void CallBuilder::run() {
  if (node.operands.size() != schema.arguments.size())
    throw ArchiveError(E::ArchiveOperator,
                       "calls " + schema.callee() + " with " +
                           std::to_string(node.operands.size()) +
                           " arguments; its schema has " +
                           std::to_string(schema.arguments.size()) +
                           "; export again");
  size_t slotsInUse = 0;
  for (auto [argument, given] : llvm::zip(schema.arguments, node.operands)) {
    if (!argument.type.isTensor())
      addAttribute(argument, given);
    else if (argument.type.list && given.kind != OperandKind::None)
      addTensorList(argument, given);
    else
      addTensor(argument, given);
    // Trailing absent tensors are left out.
    if (given.kind == OperandKind::Value || given.kind == OperandKind::Item ||
        given.kind == OperandKind::List)
      slotsInUse = slots.size();
  }
  slots.truncate(slotsInUse);
}

void CallBuilder::addTensor(const aten::Argument &argument,
                            const TorchOperand &given) {
  if (given.kind == OperandKind::None) {
    slots.push_back(0);
    return;
  }
  if (given.kind != OperandKind::Value)
    fail(argument, "a constant");
  Value value = values.lookup(given.text);
  if (!value || !isa<TensorType>(value.getType()))
    fail(argument, "the undefined value " + Twine(given.text));
  slots.push_back(1);
  operands.push_back(value);
}

void CallBuilder::addTensorList(const aten::Argument &argument,
                                const TorchOperand &given) {
  if (given.kind != OperandKind::List)
    fail(argument, "something else than a list");
  slots.push_back(2 + given.members.size());
  for (const TorchOperand &member : given.members)
    addTensor(argument, member);
}

Attribute CallBuilder::getMember(const aten::Argument &argument,
                                 const TorchOperand &given) {
  bool isInt = given.kind == OperandKind::Int;
  bool isNumber = isInt || given.kind == OperandKind::Float;
  double number = isInt ? double(given.integer) : given.real;
  auto complex = [&](double real, double imaginary) {
    return builder.getF64ArrayAttr({real, imaginary});
  };
  switch (argument.type.kind) {
  case Kind::Int:
  case Kind::Layout:
  case Kind::MemoryFormat:
    if (isInt)
      return builder.getI64IntegerAttr(given.integer);
    break;
  case Kind::Float:
    if (isNumber)
      return builder.getF64FloatAttr(number);
    break;
  case Kind::Bool:
    if (given.kind == OperandKind::Bool)
      return builder.getBoolAttr(given.integer);
    break;
  case Kind::String:
    if (given.kind == OperandKind::String)
      return builder.getStringAttr(given.text);
    break;
  case Kind::Scalar:
    if (isInt)
      return builder.getI64IntegerAttr(given.integer);
    if (isNumber)
      return builder.getF64FloatAttr(number);
    if (given.kind == OperandKind::Bool)
      return builder.getBoolAttr(given.integer);
    if (given.kind == OperandKind::Complex)
      return complex(given.real, given.imaginary);
    break;
  case Kind::Complex:
    if (given.kind == OperandKind::Complex)
      return complex(given.real, given.imaginary);
    if (isNumber)
      return complex(number, 0.0);
    break;
  case Kind::DType:
    if (isInt) {
      if (Type type = getScalarType(builder.getContext(), given.integer))
        return TypeAttr::get(type);
      fail(argument, "dtype number " + Twine(given.integer));
    }
    break;
  default:
    break;
  }
  fail(argument, "a value of another type");
}

Attribute CallBuilder::getList(const aten::Argument &argument,
                               const TorchOperand &given) {
  // One number for a list of them, as `int[2] kernel_size` allows.
  SmallVector<Attribute> members;
  if (given.kind != OperandKind::List)
    members.push_back(getMember(argument, given));
  for (const TorchOperand &member : given.members)
    members.push_back(getMember(argument, member));
  switch (argument.type.kind) {
  case Kind::Int:
    return builder.getDenseI64ArrayAttr(llvm::map_to_vector(
        members, [](Attribute a) { return cast<IntegerAttr>(a).getInt(); }));
  case Kind::Float:
    return builder.getDenseF64ArrayAttr(
        llvm::map_to_vector(members, [](Attribute a) {
          return cast<FloatAttr>(a).getValueAsDouble();
        }));
  case Kind::Bool:
    return builder.getDenseBoolArrayAttr(llvm::map_to_vector(
        members, [](Attribute a) { return cast<BoolAttr>(a).getValue(); }));
  default:
    return builder.getArrayAttr(members);
  }
}

void CallBuilder::addAttribute(const aten::Argument &argument,
                               const TorchOperand &given) {
  if (argument.type.kind == Kind::Device)
    return;
  if (argument.type.kind == Kind::Generator) {
    if (given.kind != OperandKind::None)
      fail(argument, "a generator");
    hasGenerator = true;
    return;
  }
  Attribute attribute;
  if (given.kind == OperandKind::None) {
    if (!argument.type.optional)
      fail(argument, "None");
    attribute = builder.getUnitAttr();
  } else if (given.kind == OperandKind::Value ||
             given.kind == OperandKind::Item) {
    return addNumber(argument, given);
  } else {
    attribute = argument.type.list ? getList(argument, given)
                                   : getMember(argument, given);
  }
  NamedAttribute named = builder.getNamedAttr(argument.name, attribute);
  if (attribute != aten::getDefaultAttr(builder.getContext(), argument))
    attributes.push_back(named);
  else if (takesNumber(argument))
    leftOut.push_back(named);
}

bool CallBuilder::takesNumber(const aten::Argument &argument) {
  return !argument.type.list && (argument.type.kind == Kind::Scalar ||
                                 argument.type.kind == Kind::Float);
}

/// A number of the step takes the next place that has no attribute: those in
/// front of it are said.
void CallBuilder::addNumber(const aten::Argument &argument,
                            const TorchOperand &given) {
  Value value = values.lookup(given.text);
  bool isItem = given.kind == OperandKind::Item;
  if (!value || isa<TensorType>(value.getType()) != isItem ||
      (!isItem && !value.getType().isF64()) || !takesNumber(argument))
    fail(argument, "a value that the step computes");
  llvm::append_range(attributes, leftOut);
  leftOut.clear();
  slots.push_back(isItem ? aten::kItemSlot : 1);
  operands.push_back(value);
}

Location AtenCallImporter::getLocation(const NodeInfo &info) {
  MLIRContext *context = builder.getContext();
  Location location = UnknownLoc::get(context);
  auto [file, line] = StringRef(info.source).rsplit(':');
  unsigned number = 0;
  if (!line.getAsInteger(10, number))
    location = FileLineColLoc::get(context, file, number, 0);
  if (info.module.empty())
    return location;
  return NameLoc::get(builder.getStringAttr(info.module), location);
}

Value AtenCallImporter::importOther(const TorchNode &node, const NodeInfo &info,
                                    const llvm::StringMap<Value> &values) {
  Location loc = getLocation(info);
  if (info.op == "fsdp_mlir::rank") {
    Type i64 = builder.getI64Type();
    Value rank = RankOp::create(builder, loc, builder.getF64Type());
    return aten::CallOp::create(
               builder, loc, aten::Direction::Forward, "scalar_tensor", rank,
               builder.getNamedAttr("dtype", TypeAttr::get(i64)),
               TypeRange(RankedTensorType::get({}, i64)))
        ->getResult(0);
  }
  if (info.op != "fsdp_mlir::sum_over_ranks")
    return {};
  Value own = node.operands.size() == 1 ? values.lookup(node.operands[0].text)
                                        : Value();
  auto type = own ? dyn_cast<RankedTensorType>(own.getType()) : nullptr;
  if (!type || type.getEncoding())
    throw ArchiveError(E::ArchiveOperator,
                       "adds up over ranks what is no tensor that is "
                       "row-major; export again");
  return SumOverRanksOp::create(builder, loc, type, own);
}

void AtenCallImporter::import(const TorchNode &node, const NodeInfo &info,
                              const ProgramInfo &program,
                              llvm::StringMap<Value> &values) {
  std::string where = info.source.empty() ? "" : " (at " + info.source + ")";
  if (node.op != info.op || node.results.size() != info.results.size())
    throw ArchiveError(E::ArchiveContents, "has the node " + node.op + where +
                                               " where fsdp.json describes " +
                                               info.op + "; export again");
  if (Value other = importOther(node, info, values)) {
    for (const auto &result : info.results) {
      if (result && getValueType(builder.getContext(),
                                 program.values.at(*result)) != other.getType())
        throw ArchiveError(E::ArchiveContents,
                           "describes another tensor than " + node.op + where +
                               " gives; export again");
      if (result)
        values[*result] = other;
    }
    return;
  }
  const aten::Schema *schema = aten::lookup(info.op, info.overload);
  if (!schema) {
    std::string callee = plan::operatorName(info.op, info.overload);
    std::string hint = aten::suggest(callee);
    throw ArchiveError(E::ArchiveOperator,
                       "calls " + callee + where +
                           ", of which this PyTorch has no schema" +
                           (hint.empty() ? "" : "; " + hint));
  }
  CallBuilder call(builder, node, *schema, values);
  call.run();

  SmallVector<Type> types;
  for (auto [result, name] : llvm::zip(info.results, node.results)) {
    if (result && !name.empty() && *result != name)
      throw ArchiveError(E::ArchiveContents,
                         "names the result " + name + " of " + node.op + where +
                             ", fsdp.json " + *result + "; export again");
    if (result)
      types.push_back(
          getValueType(builder.getContext(), program.values.at(*result)));
    else
      types.push_back(builder.getNoneType());
  }
  OperationState state(getLocation(info), aten::CallOp::getOperationName());
  aten::CallOp::build(builder, state,
                      info.backward ? aten::Direction::Backward
                                    : aten::Direction::Forward,
                      schema->callee(), call.operands, call.slots,
                      builder.getDictionaryAttr(call.attributes), types);
  auto op = cast<aten::CallOp>(builder.create(state));
  op.setCheckpoint(info.checkpoint);
  op.setMustSave(info.keep);
  if (op.isRandom()) {
    if (!call.hasGenerator)
      throw ArchiveError(
          E::ArchiveOperator,
          "calls " + schema->callee() + where +
              ", which draws from PyTorch's default generator; use "
              "an op that takes a generator");
    NamedAttrList args(op.getArgs());
    args.set("generator",
             aten::GeneratorAttr::get(builder.getContext(), nextSite++));
    op.setArgsAttr(args.getDictionary(builder.getContext()));
  }
  for (auto [result, value] : llvm::zip(info.results, op->getResults()))
    if (result)
      values[*result] = value;
}

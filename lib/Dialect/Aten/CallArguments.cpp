// Binds the operands and attributes of a call to the arguments of its schema.

#include "fsdp/Dialect/Aten/CallArguments.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"
#include "fsdp/Dialect/Aten/ItemSlot.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

static bool isI64(Attribute attribute) {
  auto integer = dyn_cast<IntegerAttr>(attribute);
  return integer && integer.getType().isSignlessInteger(64);
}

static bool isF64(Attribute attribute) {
  auto number = dyn_cast<FloatAttr>(attribute);
  return number && number.getType().isF64();
}

/// A Scalar: f64, i64, i1, or a complex number as [re, im].
static bool isScalar(Attribute attribute) {
  if (auto parts = dyn_cast<ArrayAttr>(attribute))
    return parts.size() == 2 && llvm::all_of(parts, isF64);
  return isF64(attribute) || isI64(attribute) || isa<BoolAttr>(attribute);
}

/// How an attribute of an argument's type is written; null where the type has
/// no attribute.
static const char *getExpected(const SchemaType &type) {
  switch (type.kind) {
  case Kind::Int:
    return type.list ? "array<i64: ...>" : "an i64";
  case Kind::Layout:
  case Kind::MemoryFormat:
    return type.list ? nullptr : "an i64";
  case Kind::Float:
    return type.list ? "array<f64: ...>" : "an f64";
  case Kind::Bool:
    return type.list ? "array<i1: ...>" : "true or false";
  case Kind::String:
    return type.list ? "a list of strings" : "a string";
  case Kind::Scalar:
    return type.list ? "a list of f64 or i64"
                     : "an f64, an i64, true, false or [re, im]";
  case Kind::Complex:
    return type.list ? nullptr : "[re, im]";
  case Kind::DType:
    return type.list ? nullptr : "an element type";
  case Kind::Generator:
    return type.list ? nullptr : "#aten.generator<site>";
  case Kind::Tensor:
  case Kind::Device:
  case Kind::Other:
    return nullptr;
  }
  return nullptr;
}

static bool isOfType(Attribute attribute, const SchemaType &type) {
  auto allOf = [&](auto predicate) {
    auto list = dyn_cast<ArrayAttr>(attribute);
    return list && llvm::all_of(list, predicate);
  };
  switch (type.kind) {
  case Kind::Int:
    return type.list ? isa<DenseI64ArrayAttr>(attribute) : isI64(attribute);
  case Kind::Layout:
  case Kind::MemoryFormat:
    return isI64(attribute);
  case Kind::Float:
    return type.list ? isa<DenseF64ArrayAttr>(attribute) : isF64(attribute);
  case Kind::Bool:
    return type.list ? isa<DenseBoolArrayAttr>(attribute)
                     : isa<BoolAttr>(attribute);
  case Kind::String:
    return type.list ? allOf([](Attribute a) { return isa<StringAttr>(a); })
                     : isa<StringAttr>(attribute);
  case Kind::Scalar:
    return type.list ? allOf(isScalar) : isScalar(attribute);
  case Kind::Complex:
    return isa<ArrayAttr>(attribute) && isScalar(attribute);
  case Kind::DType:
    return isa<TypeAttr>(attribute) &&
           getDType(cast<TypeAttr>(attribute).getValue());
  case Kind::Generator:
    return isa<GeneratorAttr>(attribute);
  case Kind::Tensor:
  case Kind::Device:
  case Kind::Other:
    return false;
  }
  return false;
}

static bool isTensorOperand(Type type) {
  auto tensor = dyn_cast<TensorType>(type);
  return tensor && getDType(tensor.getElementType());
}

static bool isScalarOperand(Type type) {
  return type.isF64() || type.isSignlessInteger(64);
}

namespace {

/// Walks the schema and the slots side by side.
class Binder {
public:
  Binder(const Schema &schema, TypeRange operands, ArrayRef<int32_t> slots,
         DictionaryAttr args,
         llvm::function_ref<InFlightDiagnostic()> emitError)
      : schema(schema), operands(operands), slots(slots), args(args),
        emitError(emitError) {}

  FailureOr<SmallVector<CallArgument>> run();

private:
  LogicalResult checkSlots();
  LogicalResult bindAttribute(CallArgument &bound, Attribute attribute);
  LogicalResult bindTensor(CallArgument &bound);
  LogicalResult bindTensorList(CallArgument &bound);
  LogicalResult bindOther(CallArgument &bound);
  LogicalResult checkTensor(const Argument &argument, int64_t operand);
  LogicalResult checkLeftOver();

  bool atEnd() const { return position == slots.size(); }
  /// Whether the next entry is a scalar operand, or a tensor whose one number
  /// is read.
  bool atScalar() const {
    return !atEnd() &&
           (slots[position] == kItemSlot ||
            (slots[position] == 1 && !isa<TensorType>(operands[nextOperand])));
  }
  LogicalResult bindItem(CallArgument &bound);

  /// Builds the message only where somebody reads it.
  template <typename Fn> LogicalResult fail(Fn &&describe) {
    if (emitError) {
      InFlightDiagnostic error = emitError();
      error << "\"" << schema.callee() << "\" ";
      describe(error);
    }
    return failure();
  }

  const Schema &schema;
  TypeRange operands;
  ArrayRef<int32_t> slots;
  DictionaryAttr args;
  llvm::function_ref<InFlightDiagnostic()> emitError;
  size_t position = 0;
  unsigned nextOperand = 0;
};

} // namespace

LogicalResult Binder::checkSlots() {
  size_t count = 0, members = 0;
  for (int32_t slot : slots) {
    bool isItem = slot == kItemSlot && members == 0;
    if ((slot < 0 && !isItem) || (members > 0 && slot > 1))
      return fail([&](auto &e) { e << "has ill-formed slots"; });
    if (members > 0)
      --members;
    if (slot == 1 || isItem)
      ++count;
    if (slot >= 2)
      members = slot - 2;
  }
  if (members != 0 || count != operands.size())
    return fail([&](auto &e) {
      e << "has slots for " << count << " operands, and " << operands.size()
        << " operands";
    });
  return success();
}

LogicalResult Binder::checkTensor(const Argument &argument, int64_t operand) {
  if (isTensorOperand(operands[operand]))
    return success();
  return fail([&](auto &e) {
    e << "takes " << argument.type.str() << " for '" << argument.name
      << "', not " << operands[operand];
  });
}

LogicalResult Binder::bindAttribute(CallArgument &bound, Attribute attribute) {
  const Argument &argument = *bound.argument;
  if (isa<UnitAttr>(attribute) && argument.type.optional) {
    bound.kind = CallArgument::Kind::None;
    return success();
  }
  const char *expected = getExpected(argument.type);
  if (argument.type.isTensor())
    return fail([&](auto &e) {
      e << "takes a tensor for '" << argument.name
        << "': make it an operand instead of an attribute";
    });
  if (!expected)
    return fail([&](auto &e) {
      e << "has no attribute for '" << argument.name << "' of type "
        << argument.type.str() << ": remove it";
    });
  if (!isOfType(attribute, argument.type))
    return fail([&](auto &e) {
      e << "takes " << argument.type.str() << " for '" << argument.name
        << "': write " << expected << " instead of " << attribute;
    });
  bound.kind = CallArgument::Kind::Attribute;
  bound.attribute = attribute;
  return success();
}

LogicalResult Binder::bindTensor(CallArgument &bound) {
  const Argument &argument = *bound.argument;
  bool mayBeAbsent = argument.type.optional || argument.defaultText ||
                     plan::takesUndefined(schema.name, argument.name);
  if (atEnd() || atScalar()) {
    if (!mayBeAbsent)
      return fail([&](auto &e) {
        e << "lacks an operand for '" << argument.name << "' of type "
          << argument.type.str();
      });
    bound.kind = CallArgument::Kind::None;
    return success();
  }
  int32_t slot = slots[position++];
  if (slot >= 2)
    return fail([&](auto &e) {
      e << "takes one tensor for '" << argument.name << "', not a list";
    });
  if (slot == 1) {
    bound.kind = CallArgument::Kind::Value;
    bound.operands.push_back(nextOperand);
    return checkTensor(argument, nextOperand++);
  }
  if (!mayBeAbsent)
    return fail([&](auto &e) {
      e << "needs a tensor for '" << argument.name << "', not 'none'";
    });
  bound.kind = CallArgument::Kind::None;
  return success();
}

LogicalResult Binder::bindTensorList(CallArgument &bound) {
  const Argument &argument = *bound.argument;
  bool mayBeAbsent = argument.type.optional || argument.defaultText;
  if ((atEnd() || slots[position] == 0) && mayBeAbsent) {
    if (!atEnd())
      ++position;
    bound.kind = CallArgument::Kind::None;
    return success();
  }
  if (atEnd() || slots[position] < 2)
    return fail([&](auto &e) {
      e << "takes a list for '" << argument.name
        << "': put its operands in brackets";
    });
  bound.kind = CallArgument::Kind::ValueList;
  for (int32_t members = slots[position++] - 2; members > 0; --members) {
    if (slots[position++] == 0) {
      if (!argument.type.optionalMembers)
        return fail([&](auto &e) {
          e << "needs tensors in the list for '" << argument.name
            << "', not 'none'";
        });
      bound.operands.push_back(-1);
      continue;
    }
    if (failed(checkTensor(argument, nextOperand)))
      return failure();
    bound.operands.push_back(nextOperand++);
  }
  return success();
}

LogicalResult Binder::bindItem(CallArgument &bound) {
  auto type = dyn_cast<RankedTensorType>(operands[nextOperand]);
  if (!type || type.getRank() != 0 || !type.getElementType().isF64())
    return fail([&](auto &e) {
      e << "takes the item of a tensor<f64> for '" << bound.argument->name
        << "', not " << operands[nextOperand];
    });
  ++position;
  bound.kind = CallArgument::Kind::Value;
  bound.operands.push_back(nextOperand++);
  return success();
}

LogicalResult Binder::bindOther(CallArgument &bound) {
  const Argument &argument = *bound.argument;
  Kind kind = argument.type.kind;
  bool takesScalar =
      !argument.type.list &&
      (kind == Kind::Scalar || kind == Kind::Float || kind == Kind::Int);
  if (takesScalar && kind != Kind::Int && atScalar() &&
      slots[position] == kItemSlot)
    return bindItem(bound);
  if (takesScalar && atScalar()) {
    if (!isScalarOperand(operands[nextOperand]))
      return fail([&](auto &e) {
        e << "takes f64 or i64 for '" << argument.name << "', not "
          << operands[nextOperand];
      });
    ++position;
    bound.kind = CallArgument::Kind::Scalar;
    bound.operands.push_back(nextOperand++);
    return success();
  }
  if (argument.defaultText || kind == Kind::Device)
    return success();
  if (argument.type.optional && kind == Kind::Other) {
    bound.kind = CallArgument::Kind::None;
    return success();
  }
  const char *expected = getExpected(argument.type);
  if (!expected)
    return fail([&](auto &e) {
      e << "takes '" << argument.name << "' of a type that a graph cannot hold";
    });
  return fail([&](auto &e) {
    e << "lacks attribute '" << argument.name << "' of type "
      << argument.type.str() << ": write " << expected
      << (argument.type.optional ? ", or unit for None" : "");
  });
}

LogicalResult Binder::checkLeftOver() {
  if (!atEnd())
    return fail([&](auto &e) {
      e << "takes fewer operands: operand " << nextOperand
        << " has no argument";
    });
  for (NamedAttribute attribute : args) {
    if (schema.findArgument(attribute.getName()))
      continue;
    return fail([&](auto &e) {
      e << "has no argument '" << attribute.getName().strref() << "'";
      if (!schema.arguments.empty()) {
        e << "; its arguments are ";
        llvm::interleaveComma(schema.arguments, e, [&](const Argument &a) {
          e << "'" << a.name << "'";
        });
      }
    });
  }
  return success();
}

FailureOr<SmallVector<CallArgument>> Binder::run() {
  if (failed(checkSlots()))
    return failure();
  SmallVector<CallArgument> result;
  for (const Argument &argument : schema.arguments) {
    CallArgument bound;
    bound.argument = &argument;
    LogicalResult status = success();
    if (Attribute attribute = args.get(argument.name))
      status = bindAttribute(bound, attribute);
    else if (argument.type.isTensor())
      status = argument.type.list ? bindTensorList(bound) : bindTensor(bound);
    else
      status = bindOther(bound);
    if (failed(status))
      return failure();
    result.push_back(std::move(bound));
  }
  if (failed(checkLeftOver()))
    return failure();
  return result;
}

FailureOr<SmallVector<CallArgument>>
fsdp::aten::bindArguments(const Schema &schema, TypeRange operands,
                          ArrayRef<int32_t> slots, DictionaryAttr args,
                          llvm::function_ref<InFlightDiagnostic()> emitError) {
  return Binder(schema, operands, slots, args, emitError).run();
}

// Building, verifying and asking aten.call.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/Aten/ElementTypes.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace fsdp;
using namespace fsdp::aten;

#define GET_OP_CLASSES
#include "fsdp/Dialect/Aten/AtenOps.cpp.inc"

// Building

void CallOp::build(OpBuilder &builder, OperationState &state,
                   Direction direction, StringRef callee, ValueRange operands,
                   ArrayRef<int32_t> slots, DictionaryAttr args,
                   TypeRange results) {
  state.addOperands(operands);
  state.addTypes(results);
  Properties &properties = state.getOrAddProperties<Properties>();
  properties.callee = builder.getStringAttr(callee);
  properties.slots = builder.getDenseI32ArrayAttr(slots);
  properties.args = args;
  if (direction == Direction::Backward)
    properties.backward = builder.getUnitAttr();
}

void CallOp::build(OpBuilder &builder, OperationState &state,
                   Direction direction, StringRef callee, ValueRange operands,
                   ArrayRef<NamedAttribute> args, TypeRange results) {
  SmallVector<int32_t> slots;
  SmallVector<Value> present;
  for (Value operand : operands) {
    slots.push_back(operand ? 1 : 0);
    if (operand)
      present.push_back(operand);
  }
  build(builder, state, direction, callee, present, slots,
        builder.getDictionaryAttr(args), results);
}

void CallOp::takePlaceOf(CallOp other) {
  setBackward(other.getBackward());
  setRecomputeAttr(other.getRecomputeAttr());
  setCheckpointAttr(other.getCheckpointAttr());
  setMustSave(other.getMustSave());
  setAccumulates(other.getAccumulates());
  (*this)->setDiscardableAttrs(other->getDiscardableAttrDictionary());
}

// Verifying

static LogicalResult verifyResults(CallOp op, const Schema &schema) {
  unsigned single = 0, lists = 0;
  for (const Result &result : schema.results) {
    if (result.type.isTensor())
      ++(result.type.list ? lists : single);
  }
  unsigned count = op->getNumResults();
  if (single + lists == 0)
    return op.emitOpError() << "\"" << op.getCallee() << "\" returns no tensor";
  if (count < single || (lists == 0 && count != single))
    return op.emitOpError()
           << "\"" << op.getCallee() << "\" returns "
           << (lists ? "at least " : "") << single << " tensor"
           << (single == 1 ? "" : "s") << ", here are " << count
           << "; a result that is not produced has type 'none'";
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    if (isa<NoneType>(type))
      continue;
    auto tensor = dyn_cast<TensorType>(type);
    if (!tensor || !getDType(tensor.getElementType()))
      return op.emitOpError()
             << "result " << i << " has type " << type
             << "; results are tensors of PyTorch's dtypes, or 'none'";
  }
  return success();
}

/// A rule is of tensors of any rank; a program's have static shapes.
static LogicalResult verifyShapes(CallOp op) {
  auto isDynamic = [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && !tensor.hasStaticShape();
  };
  for (TypeRange types :
       {TypeRange(op->getOperandTypes()), TypeRange(op->getResultTypes())})
    if (auto dynamic = llvm::find_if(types, isDynamic); dynamic != types.end())
      return op.emitOpError() << "takes or gives " << *dynamic
                              << ", of a dynamic shape; shapes are static in a "
                                 "plan";
  return success();
}

/// The value whose memory this one looks into, through views and ops in place.
static Value getRoot(Value value) {
  while (auto call = value.getDefiningOp<CallOp>()) {
    auto operand =
        call.getAliasedOperand(cast<OpResult>(value).getResultNumber());
    if (!operand)
      break;
    value = call->getOperand(*operand);
  }
  return value;
}

/// What other dialects own (a state that was loaded, a gathered parameter) is
/// not written in place: only their own ops do that.
static bool isOwnedElsewhere(Value root) {
  Operation *producer = root.getDefiningOp();
  return producer && !isa<CallOp>(producer);
}

/// An op that writes in place writes memory of another call, or an argument.
static LogicalResult verifyWrites(CallOp op) {
  if (!op.writesOperands())
    return success();
  for (OpOperand &operand : op->getOpOperands()) {
    if (!op.writesOperand(operand.getOperandNumber()))
      continue;
    Value root = getRoot(operand.get());
    if (isOwnedElsewhere(root))
      return (op.emitOpError()
              << "\"" << op.getCallee() << "\" writes in place what '"
              << root.getDefiningOp()->getName()
              << "' gives; write a copy of it")
                 .attachNote(root.getLoc())
             << "it is given here";
  }
  return success();
}

/// What `accumulates` promises to those who ask for it.
static LogicalResult verifyAccumulation(CallOp op) {
  if (!op.getAccumulates())
    return success();
  if (op.getCallee() == "add.Tensor" && op.getArgs().empty() &&
      op->getNumOperands() == 2 &&
      op->getOperand(0).getType() == op->getResult(0).getType())
    return success();
  return op.emitOpError()
         << "accumulates, which an \"add.Tensor\" of the earlier sum and of "
            "this micro-batch's part alone does, in the sum's type";
}

LogicalResult CallOp::verify() {
  const Schema *schema = getSchema();
  if (!schema) {
    std::string hint = suggest(getCallee());
    InFlightDiagnostic error = emitOpError() << "PyTorch has no operator \""
                                             << getCallee() << "\"";
    if (!hint.empty())
      error << "; " << hint;
    return error;
  }
  if (failed(bindArguments(*schema, getInputs().getTypes(), getSlots(),
                           getArgs(), [&]() { return emitOpError(); })))
    return failure();
  if (failed(verifyShapes(*this)) || failed(verifyWrites(*this)))
    return failure();
  if (failed(verifyResults(*this, *schema)))
    return failure();
  return verifyAccumulation(*this);
}

// Asking

const Schema *CallOp::getSchema() { return lookup(getCallee()); }

std::pair<std::string, std::string> CallOp::getQualifiedName() {
  if (const Schema *schema = getSchema())
    return {schema->name.str(), schema->overload.str()};
  return {getCallee().str(), ""};
}

SmallVector<CallArgument> CallOp::getCallArguments() {
  const Schema *schema = getSchema();
  if (!schema)
    return {};
  // Silent: the verifier has reported ill-formed IR.
  auto bound = bindArguments(*schema, getInputs().getTypes(), getSlots(),
                             getArgs(), nullptr);
  return succeeded(bound) ? std::move(*bound) : SmallVector<CallArgument>{};
}

const Result *CallOp::getSchemaResult(unsigned result) {
  const Schema *schema = getSchema();
  if (!schema)
    return nullptr;
  SmallVector<const Result *> tensors;
  for (const Result &candidate : schema->results)
    if (candidate.type.isTensor())
      tensors.push_back(&candidate);
  // Results in front of the list count from the front, those behind it from
  // the back. (No operator that a graph holds returns two lists of tensors.)
  auto isList = [](const Result *r) { return r->type.list; };
  size_t front = llvm::find_if(tensors, isList) - tensors.begin();
  if (result < front)
    return tensors[result];
  size_t fromBack = getNumResults() - result;
  size_t behind = tensors.size() - std::min(front + 1, tensors.size());
  if (fromBack <= behind)
    return tensors[tensors.size() - fromBack];
  return front < tensors.size() ? tensors[front] : nullptr;
}

/// Whether an alias in the schema means "a view, or a copy where a view is not
/// possible". Such ops are never decomposed wrongly by being called: their
/// results are taken for new memory.
static bool mayCopy(const Schema &schema) {
  static const llvm::StringSet<> names = {
      "aten::_autocast_to_full_precision",
      "aten::_autocast_to_reduced_precision",
      "aten::coalesce",
      "aten::contiguous",
      "aten::flatten",
      "aten::pin_memory",
      "aten::ravel",
      "aten::reshape",
      "aten::reshape_as",
      "aten::resolve_conj",
      "aten::resolve_neg",
      "aten::to",
  };
  return names.contains(schema.name);
}

std::optional<unsigned> CallOp::getAliasedOperand(unsigned result) {
  const Schema *schema = getSchema();
  const Result *returned = getSchemaResult(result);
  if (schema && plan::isQuietView(schema->name))
    return 0;
  if (!returned || returned->alias.sets.empty() || mayCopy(*schema))
    return std::nullopt;
  // Which member of a list operand a result looks into is not known: the list
  // ops that alias do so member by member.
  for (const CallArgument &argument : getCallArguments()) {
    if (!argument.argument->alias.intersects(returned->alias))
      continue;
    if (argument.kind == CallArgument::Kind::Value)
      return argument.operands.front();
    if (argument.kind == CallArgument::Kind::ValueList &&
        result < argument.operands.size() && argument.operands[result] >= 0)
      return argument.operands[result];
  }
  return std::nullopt;
}

bool CallOp::writesOperand(unsigned operand) {
  const Schema *schema = getSchema();
  if (!schema || llvm::none_of(schema->arguments, [](const Argument &a) {
        return a.alias.isWrite;
      }))
    return false;
  for (const CallArgument &argument : getCallArguments())
    if (argument.argument->alias.isWrite &&
        llvm::is_contained(argument.operands, int64_t(operand)))
      return true;
  return false;
}

bool CallOp::writesOperands() {
  const Schema *schema = getSchema();
  return schema && llvm::any_of(schema->arguments, [](const Argument &a) {
           return a.alias.isWrite;
         });
}

bool CallOp::isView() {
  if (writesOperands())
    return false;
  for (unsigned i = 0, e = getNumResults(); i != e; ++i)
    if (getAliasedOperand(i))
      return true;
  return false;
}

bool CallOp::isPointwise() {
  const Schema *schema = getSchema();
  if (!schema)
    return false;
  if (schema->hasTag(kPointwise))
    return true;
  // Pointwise without the tag.
  static const llvm::StringSet<> names = {
      "aten::_to_copy",      "aten::alias",       "aten::copy",
      "aten::detach",        "aten::fill",        "aten::full_like",
      "aten::lift_fresh",    "aten::masked_fill", "aten::ones_like",
      "aten::scalar_tensor", "aten::zeros_like"};
  return names.contains(schema->name) || plan::isFusedOptimizer(schema->name);
}

bool CallOp::isRandom() {
  const Schema *schema = getSchema();
  if (!schema || !schema->hasTag(kNondeterministicSeeded))
    return false;
  // Attention is tagged random for its dropout.
  const Argument *dropout = schema->findArgument("dropout_p");
  if (!dropout)
    return true;
  Attribute given = getArg("dropout_p");
  if (!given)
    given = getDefaultAttr(getContext(), *dropout);
  auto probability = dyn_cast_or_null<FloatAttr>(given);
  return !probability || !probability.getValue().isZero();
}

// Effects

/// Whether some op writes the memory of a root in place.
static bool isWritten(Value root) {
  // The verifier sees to these, and parameters have many readers.
  if (isOwnedElsewhere(root))
    return false;
  SmallVector<Value> worklist = {root};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (OpOperand &use : value.getUses()) {
      auto call = dyn_cast<CallOp>(use.getOwner());
      if (!call)
        continue;
      if (call.writesOperand(use.getOperandNumber()))
        return true;
      for (OpResult result : call->getResults())
        if (call.getAliasedOperand(result.getResultNumber()) ==
            use.getOperandNumber())
          worklist.push_back(result);
    }
  }
  return false;
}

void CallOp::getEffects(
    SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>>
        &effects) {
  if (!getSchema())
    return;
  if (isRandom()) {
    effects.emplace_back(MemoryEffects::Read::get(), RandomStream::get());
    effects.emplace_back(MemoryEffects::Write::get(), RandomStream::get());
  }
  bool writes = writesOperands();
  for (OpOperand &operand : (*this)->getOpOperands()) {
    if (writes && writesOperand(operand.getOperandNumber())) {
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
      effects.emplace_back(MemoryEffects::Write::get(), &operand);
    } else if (isa<TensorType>(operand.get().getType()) &&
               isWritten(getRoot(operand.get()))) {
      effects.emplace_back(MemoryEffects::Read::get(), &operand);
    }
  }
  // Two results of the same expression are not one where either is written.
  for (OpResult result : (*this)->getResults())
    if (!getAliasedOperand(result.getResultNumber()) && isWritten(result))
      effects.emplace_back(MemoryEffects::Allocate::get(), result);
}

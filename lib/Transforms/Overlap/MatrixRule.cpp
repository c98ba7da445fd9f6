// A rule that looks at whole matrices, and what of it treats each element
// alike.

#include "Overlap/MatrixRule.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/FSDP.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace fsdp;

FailureOr<MatrixRule> MatrixRule::read(func::FuncOp function) {
  MatrixRule rule(function);
  Block &body = function.getBody().front();
  // State of another shape is split in its own way.
  for (BlockArgument argument : body.getArguments())
    if (rule.isLikeParameter(argument.getType())) {
      rule.elements.insert(argument);
      rule.own.insert(argument);
    }
  for (Operation &op : body.without_terminator()) {
    bool isFree =
        llvm::all_of(op.getOperands(), [&](Value v) { return rule.isFree(v); });
    bool ofElements = !isFree && rule.treatsElements(&op);
    bool ofOwnRows = llvm::all_of(op.getOperands(), [&](Value v) {
      return rule.isFree(v) || rule.isOfOwnRows(v);
    });
    for (Value result : op.getResults()) {
      if (isFree)
        rule.free.insert(result);
      else if (ofElements)
        rule.elements.insert(result);
      if (ofElements && ofOwnRows)
        rule.own.insert(result);
    }
  }
  llvm::DenseSet<Value> seen;
  for (auto [i, result] :
       llvm::enumerate(body.getTerminator()->getOperands())) {
    // The gradient is replaced by nothing.
    auto replaced =
        cast<RankedTensorType>(body.getArgument(i ? i + 1 : 0).getType());
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (!type || type.getShape() != replaced.getShape())
      return function.emitError("the rule @\"")
             << function.getSymName() << "\" gives " << result.getType()
             << " for " << replaced;
    rule.findCrossing(result, seen);
  }
  seen.clear();
  for (Value value : rule.crossing)
    rule.findGathered(value, seen);
  rule.gathered.remove_if([&](Value value) {
    return !isa<BlockArgument>(value) && rule.followsFromGathered(value);
  });
  for (Value value : rule.crossing)
    rule.findOfWholes(value);
  // A program's numbers are those of its step, whichever came before.
  for (auto recurrence : function.getOps<RecurrenceOp>())
    return recurrence.emitOpError(
        "follows from the steps before, which a rule that looks at whole "
        "matrices cannot; compute it from the count of steps");
  return rule;
}

bool MatrixRule::isLikeParameter(Type type) const {
  auto ranked = dyn_cast<RankedTensorType>(type);
  func::FuncOp function = rule;
  auto own = cast<RankedTensorType>(function.getArgumentTypes().front());
  return ranked && ranked.getShape() == own.getShape();
}

/// What is of a whole matrix can be cut like the parameter, or not at all.
bool MatrixRule::treatsElements(Operation *op) const {
  auto call = dyn_cast<aten::CallOp>(op);
  return call && call.isPointwise() &&
         llvm::all_of(call->getResultTypes(),
                      [&](Type type) { return isLikeParameter(type); }) &&
         llvm::any_of(call->getOperands(),
                      [&](Value v) { return isOfElements(v); }) &&
         llvm::all_of(call->getOperands(), [&](Value v) {
           return isFree(v) || isLikeParameter(v.getType());
         });
}

void MatrixRule::findCrossing(Value value, llvm::DenseSet<Value> &seen) {
  // A state that stays as it is goes nowhere.
  if (isFree(value) || isa<BlockArgument>(value) || !seen.insert(value).second)
    return;
  if (!isOfElements(value)) {
    crossing.insert(value);
    return;
  }
  if (Operation *op = value.getDefiningOp())
    for (Value operand : op->getOperands())
      findCrossing(operand, seen);
}

void MatrixRule::findGathered(Value value, llvm::DenseSet<Value> &seen) {
  if (isFree(value) || !seen.insert(value).second)
    return;
  if (isOfOwnRows(value) || isa<BlockArgument>(value)) {
    gathered.insert(value);
    return;
  }
  for (Value operand : value.getDefiningOp()->getOperands())
    findGathered(operand, seen);
}

void MatrixRule::findOfWholes(Value value) {
  Operation *op = value.getDefiningOp();
  if (isFree(value) || gathered.contains(value) || !op || !ofWholes.insert(op))
    return;
  for (Value operand : op->getOperands())
    findOfWholes(operand);
}

double MatrixRule::getSeconds(const OpCost &cost) const {
  double seconds = 0;
  for (Operation *op : ofWholes)
    seconds += cost.getSeconds(op);
  return seconds;
}

bool MatrixRule::followsFromGathered(Value value) const {
  if (isFree(value) || isa<BlockArgument>(value))
    return isFree(value) || gathered.contains(value);
  return llvm::all_of(value.getDefiningOp()->getOperands(),
                      [&](Value v) { return followsFromGathered(v); });
}

unsigned MatrixRule::getState(Value value) const {
  func::FuncOp function = rule;
  if (auto argument = dyn_cast<BlockArgument>(value))
    return argument.getArgNumber() - 2;
  auto results = function.getBody().front().getTerminator()->getOperands();
  return llvm::find(results, value) - results.begin() - 1;
}

func::FuncOp MatrixRule::getElementRule(const SymbolTable &table) const {
  func::FuncOp old = rule;
  std::string name = (old.getSymName() + ".elements").str();
  if (auto known = table.lookup<func::FuncOp>(name))
    return known;
  auto anyShape = [](Type type) -> Type {
    return UnrankedTensorType::get(
        cast<RankedTensorType>(type).getElementType());
  };
  SmallVector<Type> operands, results;
  for (Type type : old.getArgumentTypes())
    operands.push_back(anyShape(type));
  for (Value value : crossing)
    operands.push_back(anyShape(value.getType()));
  for (Type type : old.getResultTypes())
    results.push_back(anyShape(type));
  OpBuilder builder(old);
  auto made = func::FuncOp::create(builder, old.getLoc(), name,
                                   builder.getFunctionType(operands, results));
  made->setDiscardableAttrs(old->getDiscardableAttrDictionary());
  made.setPrivate();
  Block *body = made.addEntryBlock();
  builder.setInsertionPointToStart(body);
  IRMapping map;
  size_t own = old.getNumArguments();
  for (auto [from, to] : llvm::zip(old.getArguments(), body->getArguments()))
    map.map(from, to);
  for (auto [from, to] :
       llvm::zip(crossing, body->getArguments().drop_front(own)))
    map.map(from, to);
  for (Operation &op : old.getBody().front().without_terminator()) {
    bool isOwn = llvm::all_of(op.getResults(), [&](Value v) {
      return (isOfElements(v) || isFree(v)) && !map.contains(v);
    });
    // What nothing that is left reads has operands that are not there.
    if (!isOwn || !llvm::all_of(op.getOperands(),
                                [&](Value v) { return map.contains(v); }))
      continue;
    Operation *copy = builder.clone(op, map);
    for (auto [from, to] : llvm::zip(op.getResults(), copy->getResults()))
      if (isOfElements(from))
        to.setType(anyShape(from.getType()));
  }
  SmallVector<Value> returned;
  for (Value value : old.getBody().front().getTerminator()->getOperands())
    returned.push_back(map.lookup(value));
  func::ReturnOp::create(builder, old.getLoc(), returned);
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*body)))
    if (isOpTriviallyDead(&op))
      op.erase();
  return made;
}

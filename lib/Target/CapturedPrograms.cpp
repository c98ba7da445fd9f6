// The sequential step as a plan's program.

#include "CapturedPrograms.h"
#include "PlanCalls.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Dialect/FSDP/Functions.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

namespace {

class CapturedExporter {
public:
  CapturedExporter(func::FuncOp function, const PlanSymbols &symbols)
      : function(function), symbols(symbols), scalars(symbols) {}

  FailureOr<std::unique_ptr<plan::ProgramT>> run() {
    program->name = function.getSymName().str();
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("is a program of several blocks");
    for (BlockArgument argument : function.getArguments()) {
      FailureOr<int> value = addValue(argument);
      if (failed(value))
        return failure();
      program->inputs.push_back(
          exportInput(function, argument.getArgNumber(), *value));
    }
    for (Operation &op : function.getBody().front())
      if (failed(exportOp(&op)))
        return failure();
    program->scalars = scalars.take();
    return std::move(program);
  }

private:
  FailureOr<int> addValue(Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    auto dtype = type ? getDType(type.getElementType()) : std::nullopt;
    if (!dtype || !type.hasStaticShape())
      return emitError(value.getLoc(), "value of ")
             << value.getType() << " is none of a captured step";
    values[value] = addTensor(type, *dtype);
    return values[value];
  }

  int addTensor(RankedTensorType type, plan::DType dtype) {
    program->values.push_back(exportTensor(type, dtype));
    return program->values.size() - 1;
  }

  LogicalResult exportOp(Operation *op) {
    if (isStepScalar(op))
      return scalars.add(op);
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<aten::CallOp, LoadOp, StoreOp, UpdateOp, SumOverRanksOp,
              func::ReturnOp>([&](auto known) { return exportOp(known); })
        .Default([](Operation *other) -> LogicalResult {
          return other->emitOpError(
              "is no op of a captured step, whose meaning can be recorded; "
              "give what `fsdp-translate --import-torchscript` wrote, before "
              "any pass");
        });
  }

  LogicalResult exportOp(aten::CallOp op) {
    auto call = exportCall(op, op.getCallee(), op.getInputs(), op.getSlots(),
                           op.getArgs(), values, scalars);
    if (failed(call))
      return failure();
    for (OpResult result : op.getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type) {
        (*call)->results.push_back(-1);
        continue;
      }
      FailureOr<int> index = addValue(result);
      if (failed(index))
        return failure();
      (*call)->results.push_back(*index);
      if (auto aliased = op.getAliasedOperand(result.getResultNumber()))
        program->values[*index]->view_of =
            values.lookup(op.getInputs()[*aliased]);
    }
    (*call)->view = op.isView();
    if (kCotangentAttr.isOn(op))
      scaleCotangent(op, **call);
    add(std::move(**call));
    return success();
  }

  /// The step is one of several micro-batches: its loss is a part of the mean.
  void scaleCotangent(aten::CallOp op, plan::AtenT &call) {
    auto training = TrainingOp::of(op->getParentOfType<ModuleOp>());
    if (!training || training.getAccumulate() == 1)
      return;
    for (auto &argument : call.arguments)
      if (argument->kind == plan::ArgumentKind::Double)
        argument->d = 1.0 / double(training.getAccumulate());
  }

  /// The state itself, in its own bytes.
  FailureOr<int> addState(Operation *op, FlatSymbolRefAttr name,
                          RankedTensorType type) {
    auto it = symbols.states.find(name.getValue());
    auto dtype = getDType(type.getElementType());
    if (it == symbols.states.end() || !dtype)
      return op->emitOpError("names a state that does not exist");
    int index = addTensor(type, *dtype);
    program->values[index]->state = it->second;
    return index;
  }

  void copy(int from, int to) {
    const plan::ValueT &value = *program->values[to];
    plan::CopyT copy;
    auto piece = std::make_unique<plan::PieceT>();
    piece->source = from;
    piece->destination = to;
    piece->block_bytes =
        *plan::spanBytes(value.shape, value.strides, value.dtype);
    copy.pieces.push_back(std::move(piece));
    add(std::move(copy));
  }

  /// A load is what the state is then, whatever is stored later.
  LogicalResult exportOp(LoadOp op) {
    auto type = cast<RankedTensorType>(op.getType());
    FailureOr<int> state = addState(op, op.getStateAttr(), type);
    FailureOr<int> value = addValue(op.getResult());
    if (failed(state) || failed(value))
      return failure();
    copy(*state, *value);
    return success();
  }

  LogicalResult exportOp(StoreOp op) {
    auto type = cast<RankedTensorType>(op.getValue().getType());
    FailureOr<int> state =
        addState(op, op.getStateAttr(),
                 RankedTensorType::get(type.getShape(), type.getElementType()));
    if (failed(state))
      return failure();
    copy(values.lookup(op.getValue()), *state);
    return success();
  }

  LogicalResult exportOp(UpdateOp op) {
    plan::UpdateT update;
    auto rule = symbols.rules.find(op.getRule());
    auto parameter = symbols.states.find(op.getParameter());
    if (rule == symbols.rules.end() || parameter == symbols.states.end())
      return op.emitOpError("names what does not exist");
    update.rule = rule->second;
    update.parameter = parameter->second;
    for (auto name : op.getStates().getAsRange<FlatSymbolRefAttr>()) {
      auto state = symbols.states.find(name.getValue());
      if (state == symbols.states.end())
        return op.emitOpError("names @")
               << name.getValue() << ", which does not exist";
      update.states.push_back(state->second);
    }
    update.gradient = values.lookup(op.getGradient());
    if (!op.getGiven().empty() || op.getScale() || op.getStaged() ||
        op.getEnd())
      return op.emitOpError("is no update of a captured step");
    if (op.getSkip())
      update.skip = values.lookup(op.getSkip());
    add(std::move(update));
    return success();
  }

  /// The sequential step has no mesh: the collective is over all there is.
  LogicalResult exportOp(SumOverRanksOp op) {
    FailureOr<int> value = addValue(op.getResult());
    if (failed(value))
      return failure();
    const plan::ValueT &sum = *program->values[*value];
    plan::CollectiveT collective;
    collective.kind = plan::CollectiveKind::AllReduce;
    collective.source = values.lookup(op.getInput());
    collective.destination = *value;
    collective.dtype = sum.dtype;
    collective.count = *plan::numElements(sum.shape);
    collective.of_step = true;
    add(std::move(collective));
    return success();
  }

  LogicalResult exportOp(func::ReturnOp end) {
    for (auto [index, value] : llvm::enumerate(end.getOperands())) {
      auto name = kOutputAttr.getOfResult(function, index);
      auto output = std::make_unique<plan::OutputT>();
      output->name = name ? name.str() : "";
      output->value = values.lookup(value);
      program->outputs.push_back(std::move(output));
    }
    return success();
  }

  template <typename OperationT> void add(OperationT operation) {
    auto command = std::make_unique<plan::CommandT>();
    command->operation.Set(std::move(operation));
    program->commands.push_back(std::move(command));
  }

  func::FuncOp function;
  const PlanSymbols &symbols;
  std::unique_ptr<plan::ProgramT> program = std::make_unique<plan::ProgramT>();
  DenseMap<Value, int> values;
  ScalarTable scalars;
};

} // namespace

FailureOr<std::unique_ptr<plan::ProgramT>>
fsdp::exportCapturedProgram(func::FuncOp function, const PlanSymbols &symbols) {
  return CapturedExporter(function, symbols).run();
}

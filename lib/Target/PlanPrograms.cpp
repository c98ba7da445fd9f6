// Programs: values, commands, step scalars.

#include "PlanPrograms.h"
#include "PlanCalls.h"
#include "PlanEnums.h"

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/Functions.h"
#include "plan/Collectives.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace fsdp;

std::unique_ptr<plan::Place> fsdp::toPlan(PlaceAttr place) {
  return std::make_unique<plan::Place>(toUInt32(place.getArena()),
                                       place.getOffset(), place.getBytes());
}

/// None: all ranks.
static std::unique_ptr<plan::ShardRange> toPlan(ShardsAttr shards) {
  if (!shards)
    return nullptr;
  return std::make_unique<plan::ShardRange>(toUInt32(shards.getFirst()),
                                            toUInt32(shards.getEnd()));
}

namespace {

class ProgramExporter {
public:
  ProgramExporter(func::FuncOp function, const PlanSymbols &symbols,
                  PlanOps::Program &ops)
      : function(function), symbols(symbols), ops(ops), scalars(symbols) {}

  FailureOr<std::unique_ptr<plan::ProgramT>> run() {
    ops.function = function;
    program->name = function.getSymName().str();
    if (!function.getBody().hasOneBlock())
      return function.emitOpError("is a program of several blocks; commands "
                                  "are a list");
    if (failed(setNumber(function, kLiveBytesAttr, program->live_bytes)) ||
        failed(
            setNumber(function, kHostLiveBytesAttr, program->host_live_bytes)))
      return failure();
    for (BlockArgument argument : function.getArguments()) {
      unsigned index = argument.getArgNumber();
      auto name = kInputAttr.getOfArgument(function, index);
      if (!name)
        return function.emitOpError("argument ")
               << index << " has no fsdp.input; programs take inputs only";
      FailureOr<int> value = addValue(argument, name.getValue());
      if (failed(value))
        return failure();
      program->inputs.push_back(exportInput(function, index, *value));
    }
    for (Operation &op : function.getBody().front())
      if (failed(exportOp(&op)))
        return failure();
    program->scalars = scalars.take();
    return std::move(program);
  }

private:
  FailureOr<int> addValue(Value value, StringRef name) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    PlaceAttr place = getPlace(value);
    std::optional<plan::DType> dtype =
        type ? getDType(type.getElementType()) : std::nullopt;
    if (!dtype || !place)
      return emitError(value.getLoc(), "value of ")
             << value.getType()
             << " has no place, or a dtype that PyTorch has not; run "
                "--fsdp-lower first";
    auto exported = exportTensor(type, *dtype);
    exported->name = name.str();
    exported->place = toPlan(place);
    int index = program->values.size();
    values[value] = index;
    ops.values.push_back(value.getDefiningOp());
    program->values.push_back(std::move(exported));
    return index;
  }

  LogicalResult exportOp(Operation *op) {
    if (isStepScalar(op))
      return scalars.add(op);
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<CmdValueOp, CmdAtenOp, CmdUpdateOp, CmdCopyOp, CmdCollectiveOp,
              CmdRecordOp, CmdWaitOp>(
            [&](auto command) { return exportOp(command); })
        .Case<func::ReturnOp>(
            [&](func::ReturnOp end) { return exportOutputs(end); })
        .Default([](Operation *other) -> LogicalResult {
          return other->emitOpError("is not a command; run fsdp-opt "
                                    "--fsdp-pipeline (or --fsdp-lower) first");
        });
  }

  LogicalResult exportOutputs(func::ReturnOp end) {
    for (auto [index, value] : llvm::enumerate(end.getOperands())) {
      auto name = kOutputAttr.getOfResult(function, index);
      if (!name || !values.contains(value))
        return function.emitOpError("result ")
               << index << " is no tensor, or has no fsdp.output";
      auto output = std::make_unique<plan::OutputT>();
      output->name = name.str();
      output->value = values.lookup(value);
      program->outputs.push_back(std::move(output));
    }
    return success();
  }

  LogicalResult exportOp(CmdValueOp value) {
    FailureOr<int> index =
        addValue(value.getResult(), value.getState().value_or(""));
    if (failed(index))
      return failure();
    plan::ValueT &exported = *program->values[*index];
    if (value.getBase())
      exported.view_of = values.lookup(value.getBase());
    if (value.getWhole())
      exported.part_of = values.lookup(value.getWhole());
    if (value.getState()) {
      auto it = symbols.states.find(*value.getState());
      if (it == symbols.states.end())
        return value.emitOpError("names a state that does not exist");
      exported.state = it->second;
    }
    return success();
  }

  LogicalResult exportOp(CmdAtenOp op) {
    auto call = exportCall(op, op.getCallee(), op.getInputs(), op.getSlots(),
                           op.getArgs(), values, scalars);
    if (failed(call))
      return failure();
    SmallVector<bool> named(op.getOutputs().size());
    for (int32_t result : op.getResults()) {
      if (result >= int64_t(named.size()))
        return op.emitOpError("names an output that it does not have");
      if (result >= 0)
        named[result] = true;
      (*call)->results.push_back(
          result < 0 ? -1 : values.lookup(op.getOutputs()[result]));
    }
    if (!llvm::all_of(named, [](bool is) { return is; }))
      return op.emitOpError("has an output that is none of its results");
    (*call)->view = op.getView();
    (*call)->recomputed = bool(op.getRecomputeAttr());
    (*call)->on = toPlan(op.getShardsAttr());
    (*call)->measured_seconds = op.getMeasured();
    add(op, op.getStream(), std::move(**call));
    return success();
  }

  LogicalResult exportOp(CmdUpdateOp op) {
    plan::UpdateT update;
    auto find = [&](const llvm::StringMap<int> &table, StringRef name,
                    uint32_t &index) -> LogicalResult {
      auto it = table.find(name);
      if (it == table.end())
        return op.emitOpError("names @") << name << ", which does not exist";
      index = it->second;
      return success();
    };
    if (failed(find(symbols.rules, op.getRule(), update.rule)) ||
        failed(find(symbols.states, op.getParameter(), update.parameter)))
      return failure();
    for (Attribute state : op.getStates())
      if (failed(find(symbols.states, cast<FlatSymbolRefAttr>(state).getValue(),
                      update.states.emplace_back())))
        return failure();
    update.gradient = values.lookup(op.getGradient());
    if (op.getScale())
      update.scale = values.lookup(op.getScale());
    if (op.getSkip())
      update.skip = values.lookup(op.getSkip());
    if (op.getStaged())
      update.staged = values.lookup(op.getStaged());
    for (Value given : op.getGiven())
      update.given.push_back(values.lookup(given));
    update.begin = op.getBegin();
    update.end = op.getEnd();
    add(op, op.getStream(), std::move(update));
    return success();
  }

  LogicalResult exportOp(CmdCopyOp op) {
    plan::CopyT copy;
    for (auto attr : op.getPieces().getAsRange<PieceAttr>()) {
      auto piece = std::make_unique<plan::PieceT>();
      if (attr.getSource() >= 0)
        piece->source = values.lookup(op.getSources()[attr.getSource()]);
      piece->destination =
          values.lookup(op.getDestinations()[attr.getDestination()]);
      piece->source_offset = attr.getSourceOffset();
      piece->destination_offset = attr.getDestinationOffset();
      piece->block_bytes = attr.getBytes();
      piece->blocks = attr.getBlocks();
      piece->source_stride = attr.getSourceStride();
      piece->destination_stride = attr.getDestinationStride();
      piece->owners = toUInt32(attr.getOwners());
      piece->on = toPlan(attr.getShards());
      copy.pieces.push_back(std::move(piece));
    }
    add(op, op.getStream(), std::move(copy));
    return success();
  }

  LogicalResult exportOp(CmdCollectiveOp op) {
    plan::CollectiveT collective;
    std::optional<plan::DType> dtype = getDType(op.getDtype());
    if (!dtype)
      return op.emitOpError("has a dtype that PyTorch has not");
    collective.kind = op.getInfo().kind;
    collective.channel = toUInt32(op.getChannel());
    collective.mesh_dim = toUInt32(op.getAxes().front());
    collective.mesh_dims = toUInt32(op.getAxes().size());
    collective.ranks = toUInt32(op.getRanks());
    collective.source = values.lookup(op.getSource());
    collective.destination = values.lookup(op.getDestination());
    collective.dtype = *dtype;
    collective.count = op.getCount();
    if (failed(symbols.findUnit(op, op.getUnit(), collective.unit)))
      return failure();
    if (std::optional<ProgramRegion> region = op.getRegion())
      collective.region = ::fsdp::toPlan(*region);
    collective.divisor = op.getDivisor().convertToDouble();
    collective.mapped = op.getMapped();
    collective.op = ::fsdp::toPlan(op.getOp());
    collective.of_step = op.getReduced() == CollectiveRole::Step;
    add(op, op.getStream(), std::move(collective));
    return success();
  }

  LogicalResult exportOp(CmdRecordOp op) {
    plan::RecordT record;
    record.event = toUInt32(op.getEvent());
    program->events = std::max<uint32_t>(program->events, record.event + 1);
    add(op, op.getStream(), std::move(record));
    return success();
  }

  LogicalResult exportOp(CmdWaitOp op) {
    plan::WaitT wait;
    wait.event = toUInt32(op.getEvent());
    add(op, op.getStream(), std::move(wait));
    return success();
  }

  template <typename OperationT>
  void add(Operation *op, int64_t stream, OperationT operation) {
    auto command = std::make_unique<plan::CommandT>();
    command->operation.Set(std::move(operation));
    command->stream = toUInt32(stream);
    command->location = getModulePath(op->getLoc()).str();
    command->source = getSourceLine(op->getLoc());
    program->commands.push_back(std::move(command));
    ops.commands.push_back(op);
  }

  func::FuncOp function;
  const PlanSymbols &symbols;
  PlanOps::Program &ops;
  std::unique_ptr<plan::ProgramT> program = std::make_unique<plan::ProgramT>();
  DenseMap<Value, int> values;
  ScalarTable scalars;
};

} // namespace

FailureOr<std::unique_ptr<plan::ProgramT>>
fsdp::exportProgram(func::FuncOp function, const PlanSymbols &symbols,
                    PlanOps::Program &ops) {
  return ProgramExporter(function, symbols, ops).run();
}

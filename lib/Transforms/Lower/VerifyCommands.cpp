// Close the commands phase.
//
// Runs each program in the order of its commands, and keeps for every byte
// whose it is, and which commands wrote and read it last. Two commands that
// touch a byte, one of them writing, must be ordered by streams and events:
// then every way to run the streams gives what this order gives. The plan's
// checker does the same when a plan is loaded; here an error has the location
// of the op.

#include "GradientMean.h"
#include "Lower/StagedUpdates.h"
#include "Lower/VerifyCopies.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Mesh.h"
#include "fsdp/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_VERIFYCOMMANDS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

namespace {

class Simulation {
public:
  Simulation(func::FuncOp program, const GradientMeans &means,
             const ModulePlaces &places, SymbolTableCollection &symbols)
      : program(program), module(program->getParentOfType<ModuleOp>()),
        means(means), places(places), symbols(symbols), mesh(getMesh(module)),
        memory(places, getShardAxis(module)) {}

  LogicalResult run() {
    for (auto state : module.getOps<StateOp>())
      if (!state.getFlat())
        memory.hold(state);
    for (BlockArgument argument : program.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type ||
          failed(places.checkPlace(program, getPlace(argument), type)) ||
          failed(memory.hold(program, argument)))
        return failure();
    }
    for (Operation &op : program.getBody().front())
      if (failed(step(&op)))
        return failure();
    for (auto state : module.getOps<StateOp>())
      if (!state.getFlat() &&
          failed(memory.read(program.getBody().front().getTerminator(), state)))
        return failure();
    return success();
  }

private:
  LogicalResult step(Operation *op) {
    if (isa<CmdAtenOp, CmdUpdateOp, CmdCopyOp, CmdCollectiveOp, CmdRecordOp,
            CmdWaitOp>(op) &&
        failed(launch(op)))
      return failure();
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<CmdValueOp, CmdAtenOp, CmdUpdateOp, CmdCopyOp, CmdCollectiveOp,
              CmdRecordOp, CmdWaitOp>(
            [&](auto command) { return run(command); })
        .Case<func::ReturnOp>([&](func::ReturnOp end) {
          memory.order.drain();
          for (Value value : end.getOperands())
            if (failed(memory.read(end, value)))
              return failure();
          return success();
        })
        .Default([&](Operation *other) -> LogicalResult {
          if (isa<LearningRateOp, StepCountOp, StateValueOp>(other) ||
              isa<arith::ArithDialect, math::MathDialect>(other->getDialect()))
            return success();
          return other->emitOpError(
              "C1: is not a command; run --fsdp-lower-to-commands first");
        });
  }

  LogicalResult launch(Operation *op) {
    auto given = op->getAttrOfType<IntegerAttr>("stream");
    int64_t stream = given ? given.getInt() : 0;
    if (stream >= kNumStreams)
      return op->emitOpError("C8: is on stream ")
             << stream << "; there are " << kNumStreams;
    if (auto copy = dyn_cast<CmdCopyOp>(op);
        copy && failed(verifyCopyStream(copy, stream)))
      return failure();
    if (stream && isa<CmdAtenOp, CmdUpdateOp>(op))
      return op->emitOpError("C8: computes on stream ")
             << stream << ", which is for collectives";
    memory.launch(op, stream);
    return success();
  }

  static bool isOnHost(PlaceAttr place) {
    return place.getArena() == kHostArena;
  }

  /// All that a command computes with is in one memory, the window being the
  /// device's: C15.
  static LogicalResult checkOneMemory(Operation *op,
                                      ArrayRef<PlaceAttr> places) {
    if (llvm::any_of(places, isOnHost) && !llvm::all_of(places, isOnHost))
      return op->emitOpError("C15: uses memory of the device and of the host");
    return success();
  }

  /// On GPUs a command runs operators that have a kernel there: C16.
  LogicalResult checkKernel(Operation *op, StringRef callee,
                            ArrayRef<PlaceAttr> places) {
    const aten::Schema *schema = aten::lookup(callee);
    if (!module->hasAttr(kDeviceAttrName) || !schema ||
        schema->hasTag(aten::kOnCuda) || llvm::any_of(places, isOnHost))
      return success();
    return op->emitOpError("C16: runs \"")
           << callee << "\", of which this PyTorch has no kernel for GPUs";
  }

  /// On GPUs the numbers of a step are in memory: C19.
  LogicalResult checkNumbers(Operation *op, StringRef callee,
                             ValueRange operands) {
    if (!module->hasAttr(kDeviceAttrName) || callee == "scalar_tensor" ||
        llvm::all_of(operands.getTypes(), llvm::IsaPred<TensorType>))
      return success();
    return op->emitOpError("C19: gives \"")
           << callee
           << "\" a number that changes between steps; run "
              "--fsdp-hold-scalars first";
  }

  LogicalResult run(CmdValueOp value) {
    auto type = cast<RankedTensorType>(value.getResult().getType());
    if (failed(places.checkPlace(value, value.getPlace(), type)))
      return failure();
    if (bool(value.getState()) + bool(value.getBase()) +
            bool(value.getWhole()) >
        1)
      return value.emitOpError("C3: is two of a view, a part and a state");
    if (value.getState()) {
      auto state =
          symbols.lookupNearestSymbolFrom<StateOp>(value, value.getStateAttr());
      if (!state)
        return value.emitOpError("C2: names the state ")
               << value.getStateAttr() << ", which does not exist";
      if (state.getTensorType() != type || getPlace(state) != value.getPlace())
        return value.emitOpError("C2: differs from the state ")
               << value.getStateAttr();
    } else if (Value base = value.getBase()) {
      if (getPlace(base) != value.getPlace())
        return value.emitOpError("C3: has another place than its base");
    } else if (Value whole = value.getWhole()) {
      PlaceAttr place = value.getPlace(), outer = getPlace(whole);
      if (place.getArena() != outer.getArena() ||
          place.getOffset() < outer.getOffset() ||
          place.getOffset() + place.getBytes() >
              outer.getOffset() + outer.getBytes())
        return value.emitOpError("C11: lies outside the value it is part of");
      if (auto declared = whole.getDefiningOp<CmdValueOp>();
          declared &&
          (declared.getBase() || declared.getWhole() || declared.getState()))
        return value.emitOpError(
            "C11: is part of what is itself a view, a part or a state");
    }
    memory.declare(value);
    return success();
  }

  LogicalResult run(CmdAtenOp call) {
    const aten::Schema *schema = aten::lookup(call.getCallee());
    if (!schema)
      return call.emitOpError("C1: PyTorch has no operator \"")
             << call.getCallee() << "\"";
    if (failed(aten::bindArguments(*schema, call.getInputs().getTypes(),
                                   call.getSlots(), call.getArgs(),
                                   [&] { return call.emitOpError("C1: "); })))
      return failure();
    if (call.getView())
      return makeViews(call);
    SmallVector<PlaceAttr> used;
    for (ValueRange values : {call.getInputs(), call.getOutputs()})
      for (Value value : values)
        if (isa<TensorType>(value.getType()))
          used.push_back(getPlace(value));
    if (failed(checkOneMemory(call, used)) ||
        failed(checkKernel(call, call.getCallee(), used)) ||
        failed(checkNumbers(call, call.getCallee(), call.getInputs())))
      return failure();
    for (Value input : call.getInputs())
      if (isa<TensorType>(input.getType()) && failed(memory.read(call, input)))
        return failure();
    for (Value output : call.getOutputs()) {
      for (Value input : call.getInputs())
        if (isa<TensorType>(input.getType()) &&
            failed(memory.checkApart(call, getPlace(input), output)))
          return failure();
      if (failed(memory.write(call, output)))
        return failure();
    }
    return success();
  }

  LogicalResult makeViews(CmdAtenOp call) {
    for (Value output : call.getOutputs()) {
      if (!memory.make(output))
        return call.emitOpError(
            "C3: makes a view that is none, or makes it twice");
      if (llvm::none_of(call.getInputs(), [&](Value input) {
            return isa<TensorType>(input.getType()) &&
                   memory.haveOneOwner(input, output);
          }))
        return call.emitOpError("C3: makes a view of what is not its input");
    }
    return success();
  }

  LogicalResult run(CmdUpdateOp update) {
    for (Value operand : update->getOperands())
      if (failed(memory.read(update, operand)))
        return failure();
    SmallVector<PlaceAttr> used;
    for (Value operand : update->getOperands())
      used.push_back(getPlace(operand));
    SmallVector<FlatSymbolRefAttr> names;
    if (!update.getStaged())
      names.push_back(update.getParameterAttr());
    for (Attribute state : update.getStates())
      names.push_back(cast<FlatSymbolRefAttr>(state));
    for (FlatSymbolRefAttr symbol : names) {
      auto state = symbols.lookupNearestSymbolFrom<StateOp>(update, symbol);
      if (!state)
        return update.emitOpError("C2: names the state ")
               << symbol << ", which does not exist";
      used.push_back(getPlace(state));
      if (failed(memory.checkApart(update, getPlace(state),
                                   update.getGradient())) ||
          failed(memory.read(update, state)) ||
          failed(memory.write(update, state)))
        return failure();
    }
    Value staged = update.getStaged();
    if ((staged && (failed(memory.checkApart(update, getPlace(staged),
                                             update.getGradient())) ||
                    failed(memory.write(update, staged)))) ||
        failed(checkOneMemory(update, used)))
      return failure();
    auto rule = symbols.lookupNearestSymbolFrom<func::FuncOp>(
        update, update.getRuleAttr());
    if (rule)
      for (aten::CallOp call : rule.getOps<aten::CallOp>())
        if (failed(checkKernel(update, call.getCallee(), used)) ||
            failed(checkNumbers(update, call.getCallee(), call.getInputs())))
          return failure();
    return success();
  }

  LogicalResult run(CmdCopyOp copy) {
    return runCopy(copy, memory, getNumShards(module));
  }

  LogicalResult run(CmdCollectiveOp collective) {
    Value from = collective.getSource(), to = collective.getDestination();
    if (!mesh || collective.getMeshDim() >= mesh.getShape().size())
      return collective.emitOpError("C7: is over a mesh dimension that does "
                                    "not exist");
    int64_t ranks = mesh.getShape()[collective.getMeshDim()];
    if (int64_t neighbours = collective.getRanks()) {
      if (collective.getKind() != CollectiveKind::AllGather ||
          collective.getMapped() || memory.getKeepers(from) != neighbours ||
          int64_t(collective.getMeshDim()) != getShardAxis(module))
        return collective.emitOpError("C17: is among ")
               << neighbours
               << " neighbours; only a gather of what as many kept is";
      ranks = neighbours;
    }
    int64_t one =
        collective.getCount() * getElementBytes(collective.getDtype());
    bool gather = collective.getKind() == CollectiveKind::AllGather;
    bool scatter = collective.getKind() == CollectiveKind::ReduceScatter;
    if (getPlace(from).getBytes() != (scatter ? one * ranks : one) ||
        getPlace(to).getBytes() != (gather ? one * ranks : one))
      return collective.emitOpError("C7: moves ")
             << one << " bytes per rank, which its places of "
             << getPlace(from).getBytes() << " and " << getPlace(to).getBytes()
             << " bytes do not fit";
    for (Value value : {from, to})
      if (getPlace(value).getArena() == kHostArena)
        return collective.emitOpError("C15: exchanges memory of the host");
    if (memory.isView(from))
      return collective.emitOpError("C7: sends a view");
    bool reduce = collective.getKind() == CollectiveKind::AllReduce;
    bool isMax = collective.getOp() == ReduceOp::Max;
    if (isMax && !reduce)
      return collective.emitOpError("C14: takes a maximum; only an all-reduce "
                                    "does");
    // Where there are replicas, the sum over them divides.
    double mean =
        means.get(collective.getUnitAttr(), collective.getDtype()).after;
    double given = collective.getDivisor().convertToDouble();
    bool sums = reduce && !isMax;
    bool overReplicas =
        int64_t(collective.getMeshDim()) != getShardAxis(module);
    bool isMean = scatter ? getNumReplicas(module) == 1 : sums && overReplicas;
    double divisor = isMean ? mean : 1;
    if (given != divisor && !(sums && given == mean))
      return collective.emitOpError("C14: divides by ")
             << given << ", not " << divisor;
    auto [channel, isNew] =
        channels.try_emplace(collective.getChannel(), memory.getStream());
    if (channel->second != memory.getStream())
      return collective.emitOpError("C8: is on channel ")
             << collective.getChannel() << " and stream " << memory.getStream()
             << "; another of that channel is on stream " << channel->second;
    if (failed(memory.read(collective, from)) ||
        failed(memory.checkApart(collective, getPlace(from), to)))
      return failure();
    return memory.write(collective, to);
  }

  LogicalResult run(CmdRecordOp record) {
    if (!memory.order.record(record.getEvent(), memory.getStream()))
      return record.emitOpError("C8: records event ")
             << record.getEvent() << " for the second time";
    return success();
  }

  LogicalResult run(CmdWaitOp wait) {
    if (!memory.order.wait(wait.getEvent(), memory.getStream()))
      return wait.emitOpError("C8: waits for event ")
             << wait.getEvent() << ", which was not recorded before";
    return success();
  }

  func::FuncOp program;
  ModuleOp module;
  const GradientMeans &means;
  const ModulePlaces &places;
  SymbolTableCollection &symbols;
  shard::GridOp mesh;
  CommandMemory memory;
  DenseMap<int64_t, uint32_t> channels; // their streams
};

struct VerifyCommandsPass : fsdp::impl::VerifyCommandsBase<VerifyCommandsPass> {
  void runOnOperation() override {
    ModulePlaces places(getOperation());
    GradientMeans means(getOperation());
    SymbolTableCollection symbols;
    if (failed(places.check()))
      return signalPassFailure();
    for (func::FuncOp program : getPrograms(getOperation()))
      if (failed(Simulation(program, means, places, symbols).run()) ||
          failed(verifyStagedUpdates(program, symbols)))
        return signalPassFailure();
    if (failed(places.checkSizes()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

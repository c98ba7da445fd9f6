// Rewrite programs into commands.

#include "Lower/AdditionRule.h"
#include "Lower/MemberCopies.h"
#include "Lower/ProgramValues.h"

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Analysis/RematRegions.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/PlanTypes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;

namespace fsdp {
#define GEN_PASS_DEF_LOWERTOCOMMANDS
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace fsdp;

namespace {

/// Lowers one program: ops are rewritten in order, and each value is mapped to
/// the cmd.value that stands for its memory.
class ProgramLowering {
public:
  ProgramLowering(func::FuncOp program, const ProgramLiveness &memory,
                  SymbolTableCollection &symbols)
      : program(program), builder(program.getContext()), memory(memory),
        aliases(memory.getAliases()), symbols(symbols),
        values(builder, memory) {}

  LogicalResult run() {
    Block &block = program.getBody().front();
    for (BlockArgument argument : block.getArguments()) {
      if (!getPlace(argument))
        return program.emitError("argument ")
               << argument.getArgNumber() << " of '" << program.getSymName()
               << "' has no place; run --fsdp-plan-memory first";
      values.map(argument, argument);
    }
    SmallVector<Operation *> ops;
    for (Operation &op : block)
      ops.push_back(&op);
    for (Operation *op : ops) {
      builder.setInsertionPoint(op);
      if (failed(checkReady(op)) || failed(lower(op)))
        return failure();
    }
    // Readers first: by now only ops that are lowered read these.
    for (Operation *op : llvm::reverse(ops))
      if (lowered.contains(op))
        op->erase();
    return success();
  }

private:
  LogicalResult checkReady(Operation *op) {
    for (Value result : op->getResults())
      if (isa<TensorType, FutureType>(result.getType()) && !getPlace(result))
        return op->emitOpError(
            "has a result without a place; run --fsdp-plan-memory first");
    if (getStream(op) != plan::computeStream && !isa<StartOpInterface>(op) &&
        !isa<WaitOp>(op))
      return op->emitOpError()
             << "is on stream " << getStream(op)
             << "; only collectives, copies from and to the host and their "
                "waits are on another stream than 0";
    return success();
  }

  static int64_t getStream(Operation *op) {
    auto stream = kStreamAttr.get(op);
    return stream ? stream.getInt() : int64_t(plan::computeStream);
  }

  LogicalResult lower(Operation *op) {
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<aten::CallOp>([&](auto call) { return lowerCall(call); })
        .Case<LoadOp>([&](auto load) { return lowerLoad(load); })
        .Case<StoreOp>([&](auto store) { return lowerStore(store); })
        .Case<UpdateOp>([&](auto update) { return lowerUpdate(update); })
        .Case<AccumulateOp>([&](auto sum) { return lowerAccumulate(sum); })
        .Case<PackOp>([&](auto pack) { return lowerPack(pack); })
        .Case<UnpackOp>([&](auto unpack) { return lowerUnpack(unpack); })
        .Case<KeepOp>([&](auto keep) { return lowerKeep(keep); })
        .Case<CollectiveOpInterface>(
            [&](auto collective) { return lowerCollective(collective); })
        .Case<FetchStartOp>([&](auto start) { return lowerFetch(start); })
        .Case<OffloadStartOp>([&](auto start) { return lowerOffload(start); })
        .Case<WaitOp>([&](WaitOp wait) { return lowerWait(wait); })
        .Default([&](Operation *other) { return keep(other); });
  }

  /// Step scalars and the return stay, with operands replaced.
  LogicalResult keep(Operation *op) {
    if (isa<func::ReturnOp>(op)) {
      for (OpOperand &operand : op->getOpOperands())
        operand.set(values.lookup(operand.get()));
      return success();
    }
    if (isStepScalar(op)) {
      for (Value result : op->getResults())
        values.map(result, result);
      return success();
    }
    return op->emitOpError("is not a scheduled op; run --fsdp-overlap first");
  }

  LogicalResult lookupState(Operation *op, FlatSymbolRefAttr name,
                            StateOp &state) {
    state = symbols.lookupNearestSymbolFrom<StateOp>(op, name);
    if (state && getPlace(state))
      return success();
    return op->emitOpError() << "reads or writes " << name
                             << ", which has no place; run "
                                "--fsdp-plan-memory first";
  }

  LogicalResult lowerCall(aten::CallOp call) {
    if (call.writesOperands())
      return call.emitOpError()
             << "\"" << call.getCallee()
             << "\" writes an operand in place, which a plan cannot do; "
                "export the functional form";
    bool view = call.isView();
    SmallVector<Value> inputs, outputs;
    SmallVector<int32_t> results;
    for (Value input : call.getInputs())
      inputs.push_back(values.lookup(input));
    for (OpResult result : call->getResults()) {
      if (!isa<RankedTensorType>(result.getType())) {
        results.push_back(-1);
        continue;
      }
      std::optional<unsigned> aliased =
          call.getAliasedOperand(result.getResultNumber());
      if (view != aliased.has_value())
        return call.emitOpError()
               << "\"" << call.getCallee()
               << "\" gives views and new tensors at once, which a plan cannot "
                  "hold";
      results.push_back(outputs.size());
      outputs.push_back(view ? values.declareView(result, inputs[*aliased])
                             : values.declare(result));
    }
    CmdAtenOp::create(builder, call.getLoc(), call.getCallee(), inputs, outputs,
                      call.getSlots(), call.getArgs(), results, view,
                      call.getRecomputeAttr(), kShardsAttr.get(call),
                      call.getMeasuredAttr());
    return done(call);
  }

  LogicalResult lowerLoad(LoadOp load) {
    StateOp state;
    if (failed(lookupState(load, load.getStateAttr(), state)))
      return failure();
    Value to = values.declare(load.getResult());
    if (!memory.getStorage(load.getResult())->state)
      copyAll(load.getLoc(), values.declareState(load.getLoc(), state), to);
    return done(load);
  }

  LogicalResult lowerStore(StoreOp store) {
    StateOp state;
    if (failed(lookupState(store, store.getStateAttr(), state)))
      return failure();
    if (memory.getStorage(store.getValue())->state != state)
      copyAll(store.getLoc(), values.getBytes(store.getValue()),
              values.declareState(store.getLoc(), state));
    return done(store);
  }

  /// Fills the destination's place.
  void copyAll(Location loc, Value from, Value to,
               int64_t stream = plan::computeStream, int64_t owners = 1) {
    CopyPieces pieces(owners);
    pieces.add(from, to, getPlace(to).getBytes());
    pieces.create(builder, loc, stream);
  }

  LogicalResult lowerUpdate(UpdateOp update) {
    SmallVector<Value> given;
    for (Value value : update.getGiven())
      given.push_back(values.lookup(value));
    CmdUpdateOp::create(
        builder, update.getLoc(), update.getRuleAttr(),
        update.getParameterAttr(), values.lookup(update.getGradient()),
        update.getStatesAttr(), update.getBeginAttr(), update.getEndAttr(),
        values.lookupOrNull(update.getScale()),
        values.lookupOrNull(update.getSkip()),
        values.lookupOrNull(update.getStaged()), given);
    if (Value changed = update.getResult()) // in place
      values.map(changed, values.lookup(update.getStaged()));
    return done(update);
  }

  /// To add in place is to update a state by a rule.
  LogicalResult lowerAccumulate(AccumulateOp sum) {
    StateOp state;
    if (failed(lookupState(sum, sum.getStateAttr(), state)))
      return failure();
    func::FuncOp rule = getAdditionRule(program->getParentOfType<ModuleOp>(),
                                        state.getTensorType().getElementType());
    CmdUpdateOp::create(builder, sum.getLoc(),
                        FlatSymbolRefAttr::get(rule.getSymNameAttr()),
                        sum.getStateAttr(), values.lookup(sum.getValue()),
                        builder.getArrayAttr({}), /*begin=*/0, /*end=*/0,
                        Value(), Value(), /*staged=*/Value(),
                        /*given=*/ValueRange());
    return done(sum);
  }

  LogicalResult lowerPack(PackOp pack) {
    values.declare(pack.getBucket());
    getPacking(pack.getInputs(), pack.getMembers(), pack.getBucket(), values,
               aliases)
        .create(builder, pack.getLoc());
    remarkCopies(pack, aliases);
    return done(pack);
  }

  LogicalResult lowerUnpack(UnpackOp unpack) {
    for (Value output : unpack.getOutputs())
      values.declare(output);
    getUnpacking(unpack, values, aliases).create(builder, unpack.getLoc());
    return done(unpack);
  }

  LogicalResult lowerKeep(KeepOp keep) {
    copyAll(keep.getLoc(), values.getBytes(keep.getInput()),
            values.declare(keep.getResult()), plan::computeStream,
            keep.getRanks());
    return done(keep);
  }

  LogicalResult lowerCollective(CollectiveOpInterface op) {
    auto start = dyn_cast<StartOpInterface>(op.getOperation());
    if (!start)
      return keep(op);
    Value source = values.lookup(op->getOperand(0));
    Value destination = values.declare(cast<OpResult>(start.getFuture()));
    RankedTensorType piece = op.getPieceType();
    int64_t stream = getStream(op);
    followCompute(op);
    auto collective = CmdCollectiveOp::create(
        builder, op.getLoc(), op.getKind(), source, destination,
        piece.getElementType(), piece.getNumElements(), op.getUnitAttr(),
        /*region=*/nullptr, op.getDivisor());
    collective.setRegion(op.getRegion());
    collective.setMapped(op.getMapped());
    collective.setRanks(op.getRanks());
    collective.setOp(op.getReduceOp());
    if (op.getRole() != collective.getRole())
      collective.setReduced(op.getRole());
    collective.setAxes(op.getMeshAxes());
    collective.setStream(stream);
    if (stream != plan::computeStream)
      collective.setChannel(plan::channelOf(stream));
    complete(op);
    return done(op);
  }

  LogicalResult lowerFetch(FetchStartOp start) {
    Value to = values.declare(start.getFuture());
    followCompute(start);
    if (auto members = start.getMembers())
      getPacking(start.getInputs(), *members, start.getFuture(), values,
                 aliases)
          .create(builder, start.getLoc(), getStream(start));
    else
      copyAll(start.getLoc(), values.lookup(start.getInputs().front()), to,
              getStream(start));
    complete(start);
    return done(start);
  }

  LogicalResult lowerOffload(OffloadStartOp start) {
    Value to = values.declare(start.getFuture());
    followCompute(start);
    copyAll(start.getLoc(), values.getBytes(start.getInput()), to,
            getStream(start));
    complete(start);
    return done(start);
  }

  /// What a source holds is there, and what lay in the destination is no longer
  /// read, once the compute stream has come this far.
  void followCompute(Operation *start) {
    order(start->getLoc(), plan::computeStream, getStream(start));
  }

  /// Notes the event behind a start on a side stream.
  void complete(Operation *start) {
    if (int64_t stream = getStream(start); stream != plan::computeStream)
      completions[start->getResult(0)] = record(start->getLoc(), stream);
  }

  LogicalResult lowerWait(WaitOp wait) {
    values.map(wait.getResult(), values.lookup(wait.getFuture()));
    // A collective on the compute stream is complete by now.
    if (auto event = completions.find(wait.getFuture());
        event != completions.end())
      CmdWaitOp::create(builder, wait.getLoc(), event->second, getStream(wait));
    return done(wait);
  }

  /// Makes what follows on stream `to` come after what is on stream `from`.
  void order(Location loc, int64_t from, int64_t to) {
    if (from != to)
      CmdWaitOp::create(builder, loc, record(loc, from), to);
  }

  int64_t record(Location loc, int64_t stream) {
    CmdRecordOp::create(builder, loc, events, stream);
    return events++;
  }

  LogicalResult done(Operation *op) {
    lowered.insert(op);
    return success();
  }

  func::FuncOp program;
  OpBuilder builder;
  const ProgramLiveness &memory;
  const Aliases &aliases;
  SymbolTableCollection &symbols;
  ProgramValues values;
  /// The event behind a collective on a side stream, by its future.
  DenseMap<Value, int64_t> completions;
  int64_t events = 0;
  DenseSet<Operation *> lowered;
};

struct LowerToCommandsPass
    : fsdp::impl::LowerToCommandsBase<LowerToCommandsPass> {
  void runOnModule() override {
    SymbolTableCollection symbols;
    for (func::FuncOp program : getPrograms(getOperation())) {
      FailureOr<ProgramLiveness> memory = ProgramLiveness::compute(program);
      if (failed(memory) ||
          failed(ProgramLowering(program, *memory, symbols).run()))
        return signalPassFailure();
    }
  }
};
} // namespace

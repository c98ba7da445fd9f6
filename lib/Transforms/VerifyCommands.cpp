// Close the commands phase.
//
// Runs each program in the order of its commands, and keeps for every byte
// whose it is, and which commands wrote and read it last. Two commands that
// touch a byte, one of them writing, must be ordered by streams and events:
// then every way to run the streams gives what this order gives. The plan's
// checker does the same when a plan is loaded; here an error has the location
// of the op.

#include "ModulePlaces.h"

#include "fsdp/Analysis/Aliases.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

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
  Simulation(func::FuncOp program, const ModulePlaces &places,
             SymbolTableCollection &symbols)
      : program(program), module(program->getParentOfType<ModuleOp>()),
        places(places), symbols(symbols), mesh(getMesh(module)) {}

  LogicalResult run() {
    for (auto state : module.getOps<StateOp>())
      if (!state.getFlat())
        begin(getPlace(state), ownerOf(state.getSymNameAttr()));
    for (BlockArgument argument : program.getArguments()) {
      PlaceAttr place = getPlace(argument);
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type || failed(places.checkPlace(program, place, type)))
        return failure();
      int64_t owner = ownerOf(argument);
      if (failed(visit(place, [&](const ByteTimeline::Entry &entry) -> LogicalResult {
            if (entry.owner == ByteTimeline::nobody)
              return success();
            return program.emitOpError("C2: argument ")
                   << argument.getArgNumber() << " shares bytes with "
                   << name(entry.owner);
          })))
        return failure();
      begin(place, owner);
    }
    for (Operation &op : program.getBody().front())
      if (failed(step(&op)))
        return failure();
    for (auto state : module.getOps<StateOp>())
      if (!state.getFlat() &&
          failed(read(program.getBody().front().getTerminator(),
                      getPlace(state), ownerOf(state.getSymNameAttr()))))
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
          order.drain();
          for (Value value : end.getOperands())
            if (failed(read(end, value)))
              return failure();
          return success();
        })
        .Default([&](Operation *other) -> LogicalResult {
          if (isa<LearningRateOp, StepCountOp>(other) ||
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
    if (stream && isa<CmdAtenOp, CmdUpdateOp, CmdCopyOp>(op))
      return op->emitOpError("C8: computes on stream ")
             << stream << ", which is for collectives";
    if (isa<CmdCollectiveOp>(op))
      order.meet(stream);
    now = order.launch(stream);
    commands[stream].push_back(op);
    return success();
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
      owners[value.getResult()] = ownerOf(state.getSymNameAttr());
    } else if (Value base = value.getBase()) {
      if (getPlace(base) != value.getPlace())
        return value.emitOpError("C3: has another place than its base");
      owners[value.getResult()] = ownerOf(base);
      unmade.insert(value.getResult());
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
      wholes[ownerOf(value.getResult())] = ownerOf(whole);
    }
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
    for (Value input : call.getInputs())
      if (isa<TensorType>(input.getType()) && failed(read(call, input)))
        return failure();
    for (Value output : call.getOutputs()) {
      for (Value input : call.getInputs())
        if (isa<TensorType>(input.getType()) &&
            failed(checkApart(call, getPlace(input), output)))
          return failure();
      if (failed(writeAll(call, output)))
        return failure();
    }
    return success();
  }

  LogicalResult makeViews(CmdAtenOp call) {
    for (Value output : call.getOutputs()) {
      if (!unmade.erase(output))
        return call.emitOpError(
            "C3: makes a view that is none, or makes it twice");
      if (llvm::none_of(call.getInputs(), [&](Value input) {
            return isa<TensorType>(input.getType()) &&
                   ownerOf(input) == ownerOf(output);
          }))
        return call.emitOpError("C3: makes a view of what is not its input");
    }
    return success();
  }

  LogicalResult run(CmdUpdateOp update) {
    if (failed(read(update, update.getGradient())))
      return failure();
    SmallVector<FlatSymbolRefAttr> names{update.getParameterAttr()};
    for (Attribute state : update.getStates())
      names.push_back(cast<FlatSymbolRefAttr>(state));
    for (FlatSymbolRefAttr symbol : names) {
      auto state = symbols.lookupNearestSymbolFrom<StateOp>(update, symbol);
      if (!state)
        return update.emitOpError("C2: names the state ")
               << symbol << ", which does not exist";
      int64_t owner = ownerOf(state.getSymNameAttr());
      if (failed(checkApart(update, getPlace(state), update.getGradient())) ||
          failed(read(update, getPlace(state), owner)) ||
          failed(write(update, getPlace(state), owner)) ||
          failed(writeWindow(update, state.getSymNameAttr())))
        return failure();
    }
    return success();
  }

  LogicalResult run(CmdCopyOp copy) {
    Value to = copy.getDestination(), from = copy.getSource();
    uint64_t size = copy.getBlockBytes(), blocks = copy.getBlocks();
    auto fits = [&](Value value, uint64_t offset, uint64_t stride) {
      return blocks >= 1 &&
             static_cast<unsigned __int128>(stride) * (blocks - 1) + offset +
                     size <=
                 uint64_t(getPlace(value).getBytes());
    };
    if (!fits(to, copy.getDestinationOffset(), copy.getDestinationStride()) ||
        (from && !fits(from, copy.getSourceOffset(), copy.getSourceStride())))
      return copy.emitOpError("C6: reaches past the end of a place");
    if (blocks > 1 && copy.getDestinationStride() < size)
      return copy.emitOpError("C6: its blocks lie over each other");
    if (isView(to) || (from && isView(from)))
      return copy.emitOpError("C6: copies bytes of a view");
    if (from && failed(checkApart(copy, getPlace(from), to)))
      return failure();
    for (uint64_t b = 0; from && b < blocks; ++b)
      if (failed(read(copy, getPlace(from), ownerOf(from),
                      copy.getSourceOffset() + b * copy.getSourceStride(),
                      size)))
        return failure();
    for (uint64_t b = 0; b < blocks; ++b)
      if (failed(write(copy, getPlace(to), ownerOf(to),
                       copy.getDestinationOffset() +
                           b * copy.getDestinationStride(),
                       size)))
        return failure();
    return writeWindow(copy, to);
  }

  LogicalResult run(CmdCollectiveOp collective) {
    Value from = collective.getSource(), to = collective.getDestination();
    if (!mesh || collective.getMeshDim() >= mesh.getShape().size())
      return collective.emitOpError("C7: is over a mesh dimension that does "
                                    "not exist");
    int64_t ranks = mesh.getShape()[collective.getMeshDim()];
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
    if (isView(from))
      return collective.emitOpError("C7: sends a view");
    double divisor = scatter ? ranks : 1;
    if (collective.getDivisor().convertToDouble() != divisor)
      return collective.emitOpError("C14: divides by ")
             << collective.getDivisor().convertToDouble() << ", not "
             << divisor;
    auto [channel, isNew] =
        channels.try_emplace(collective.getChannel(), now.stream);
    if (channel->second != now.stream)
      return collective.emitOpError("C8: is on channel ")
             << collective.getChannel() << " and stream " << now.stream
             << "; another of that channel is on stream " << channel->second;
    if (failed(read(collective, from)) ||
        failed(checkApart(collective, getPlace(from), to)))
      return failure();
    return writeAll(collective, to);
  }

  LogicalResult run(CmdRecordOp record) {
    if (!order.record(record.getEvent(), now.stream))
      return record.emitOpError("C8: records event ")
             << record.getEvent() << " for the second time";
    return success();
  }

  LogicalResult run(CmdWaitOp wait) {
    if (!order.wait(wait.getEvent(), now.stream))
      return wait.emitOpError("C8: waits for event ")
             << wait.getEvent() << ", which was not recorded before";
    return success();
  }

  static bool isView(Value value) {
    auto declared = value.getDefiningOp<CmdValueOp>();
    return declared && declared.getBase();
  }

  LogicalResult checkApart(Operation *op, PlaceAttr read, Value written) {
    if (!overlap(read, getPlace(written)))
      return success();
    return op->emitOpError("C4: writes bytes that it reads");
  }

  // Reading and writing

  LogicalResult read(Operation *op, Value value) {
    if (unmade.contains(value))
      return op->emitOpError("C3: reads a view that no call has made");
    return read(op, getPlace(value), ownerOf(value));
  }
  LogicalResult read(Operation *op, PlaceAttr place, int64_t owner) {
    return read(op, place, owner, 0, place.getBytes());
  }
  /// The bytes are `owner`'s: written by it, by a part of it or by the whole it
  /// is part of; and that has happened.
  LogicalResult read(Operation *op, PlaceAttr place, int64_t owner,
                     uint64_t offset, uint64_t bytes) {
    uint64_t begin = place.getOffset() + offset;
    ByteTimeline &bytesOf = timelines[place.getArena()];
    LogicalResult result = bytesOf.visit(
        begin, begin + bytes,
        [&](const ByteTimeline::Entry &entry) -> LogicalResult {
          if (entry.owner == ByteTimeline::nobody)
            return op->emitOpError("C5: reads ")
                   << name(owner) << " before it is written";
          if (entry.owner != owner && wholeOf(entry.owner) != owner &&
              wholeOf(owner) != entry.owner)
            return op->emitOpError("C5: reads ")
                   << name(owner) << " after " << name(entry.owner)
                   << " was written over it";
          if (!order.follows(now.stream, entry.written))
            return complain(op, entry.written)
                   << "C9: reads " << name(owner)
                   << " without waiting for what writes it";
          return success();
        });
    bytesOf.read(begin, begin + bytes, now);
    return result;
  }

  LogicalResult writeAll(Operation *op, Value value) {
    if (isView(value))
      return op->emitOpError("C3: writes a view");
    if (failed(write(op, getPlace(value), ownerOf(value))))
      return failure();
    return writeWindow(op, value);
  }
  LogicalResult write(Operation *op, PlaceAttr place, int64_t owner) {
    return write(op, place, owner, 0, place.getBytes());
  }
  /// All that touched these bytes has happened.
  LogicalResult write(Operation *op, PlaceAttr place, int64_t owner,
                      uint64_t offset, uint64_t bytes) {
    uint64_t begin = place.getOffset() + offset;
    ByteTimeline &bytesOf = timelines[place.getArena()];
    LogicalResult result = bytesOf.visit(
        begin, begin + bytes,
        [&](const ByteTimeline::Entry &entry) -> LogicalResult {
          // Neither a bucket nor another part of it.
          int64_t whole = wholeOf(entry.owner);
          if (entry.owner != owner && whole != ByteTimeline::nobody &&
              (whole == owner || whole == wholeOf(owner)))
            return op->emitOpError("C11: writes ")
                   << name(owner) << " over " << name(entry.owner)
                   << ", which is a part of the same value";
          if (!order.follows(now.stream, entry.written))
            return complain(op, entry.written)
                   << "C10: writes " << name(owner)
                   << " without waiting for what wrote these bytes";
          for (uint32_t s = 0; s < kNumStreams; ++s)
            if (!order.follows(now.stream, {s, entry.read[s]}))
              return complain(op, {s, entry.read[s]})
                     << "C10: writes " << name(owner)
                     << " without waiting for what reads these bytes";
          return success();
        });
    bytesOf.write(begin, begin + bytes, owner, now);
    return result;
  }

  /// What shows a state on other ranks changes with it: on all ranks, what read
  /// there has happened, and what reads later does not mean the old value.
  LogicalResult writeWindow(Operation *op, StringAttr state) {
    PlaceAttr window = places.getWindow(state);
    if (!window)
      return success();
    LogicalResult result =
        visit(window, [&](const ByteTimeline::Entry &entry) -> LogicalResult {
          for (uint32_t s = 0; s < kNumStreams; ++s)
            if (!order.followsEverywhere(now.stream, {s, entry.read[s]}))
              return complain(op, {s, entry.read[s]})
                     << "C12: writes the state @" << state.getValue()
                     << ", which other ranks may still read: no collective "
                        "lies "
                        "between";
          return success();
        });
    timelines[window.getArena()].write(window.getOffset(),
                                       window.getOffset() + window.getBytes(),
                                       ownerOf(state), now);
    return result;
  }
  LogicalResult writeWindow(Operation *op, Value value) {
    auto declared = value.getDefiningOp<CmdValueOp>();
    return declared && declared.getState()
               ? writeWindow(op, declared.getStateAttr().getAttr())
               : success();
  }

  template <typename Fn> LogicalResult visit(PlaceAttr place, Fn fn) const {
    return timelines[place.getArena()].visit(
        place.getOffset(), place.getOffset() + place.getBytes(), fn);
  }

  /// What is there when the program begins.
  void begin(PlaceAttr place, int64_t owner) {
    timelines[place.getArena()].write(
        place.getOffset(), place.getOffset() + place.getBytes(), owner, {});
  }

  /// An error with a note at the command that should have been waited for.
  InFlightDiagnostic complain(Operation *op, Moment other) {
    InFlightDiagnostic error = op->emitOpError();
    if (other.index)
      error.attachNote(commands[other.stream][other.index - 1]->getLoc())
          << "that command is here, on stream " << other.stream;
    return error;
  }

  // Owners

  /// A number for the memory of a value, or of a state by its name.
  int64_t ownerOf(Value value) { return number(owners, value); }
  int64_t ownerOf(StringAttr state) { return number(states, state); }
  template <typename Map, typename Key> int64_t number(Map &map, Key key) {
    auto [it, isNew] = map.try_emplace(key, next);
    next += isNew;
    return it->second;
  }
  int64_t wholeOf(int64_t owner) const {
    auto it = wholes.find(owner);
    return it == wholes.end() ? ByteTimeline::nobody : it->second;
  }
  std::string name(int64_t owner) {
    std::string text = "value";
    llvm::raw_string_ostream os(text);
    for (auto [state, number] : states)
      if (number == owner)
        return "state @" + state.str();
    for (auto [value, number] : owners)
      if (number == owner && !isView(value)) {
        os << " of " << value.getType();
        if (StringRef path = getModulePath(value.getLoc()); !path.empty())
          os << " in " << path;
        break;
      }
    return text;
  }

  func::FuncOp program;
  ModuleOp module;
  const ModulePlaces &places;
  SymbolTableCollection &symbols;
  shard::GridOp mesh;
  ByteTimeline timelines[2]; // of the arenas
  CommandOrder order;
  Moment now; // of the command that is checked
  SmallVector<Operation *> commands[kNumStreams];
  DenseMap<int64_t, uint32_t> channels; // their streams
  DenseMap<Value, int64_t> owners;
  DenseMap<StringAttr, int64_t> states;
  DenseMap<int64_t, int64_t> wholes; // of parts
  int64_t next = 0;
  DenseSet<Value> unmade;
};

struct VerifyCommandsPass : fsdp::impl::VerifyCommandsBase<VerifyCommandsPass> {
  void runOnOperation() override {
    ModulePlaces places(getOperation());
    SymbolTableCollection symbols;
    if (failed(places.check()))
      return signalPassFailure();
    for (func::FuncOp program : getPrograms(getOperation()))
      if (failed(Simulation(program, places, symbols).run()))
        return signalPassFailure();
    if (failed(places.checkSizes()))
      return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

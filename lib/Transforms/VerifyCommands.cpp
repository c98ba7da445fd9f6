// Close the commands phase.
//
// Simulates each program: who owns which bytes while its commands run in order.
// The plan's checker does the same when a plan is loaded; here an error has the
// location of the op.

#include "fsdp/Analysis/Liveness.h"
#include "fsdp/Analysis/Places.h"
#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"
#include "plan/ByteOwners.h"

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
  explicit Simulation(func::FuncOp program)
      : program(program), module(program->getParentOfType<ModuleOp>()) {}

  LogicalResult run() {
    arenas = getArenaBytes(module);
    if (arenas.empty())
      return module.emitError(
          "C2: has no arenas; run --fsdp-plan-memory first");
    owners.resize(arenas.size());
    for (auto state : module.getOps<StateOp>()) {
      PlaceAttr place = getPlace(state);
      if (failed(checkPlace(state, place, state.getTensorType())))
        return failure();
      if (auto other = firstOwner(place))
        return state.emitOpError("C2: shares bytes with ") << name(*other);
      write(place, ownerOf(state.getSymNameAttr()));
    }
    for (BlockArgument argument : program.getArguments()) {
      PlaceAttr place = getPlace(argument);
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type || failed(checkPlace(program, place, type)))
        return failure();
      if (auto other = firstOwner(place))
        return program.emitOpError("C2: argument ")
               << argument.getArgNumber() << " shares bytes with "
               << name(*other);
      write(place, ownerOf(argument));
    }
    for (Operation &op : program.getBody().front())
      if (failed(step(&op)))
        return failure();
    for (auto state : module.getOps<StateOp>())
      if (failed(read(program.getBody().front().getTerminator(),
                      getPlace(state), ownerOf(state.getSymNameAttr()))))
        return failure();
    return success();
  }

private:
  LogicalResult step(Operation *op) {
    if (auto stream = op->getAttrOfType<IntegerAttr>("stream");
        stream && stream.getInt() != 0)
      return op->emitOpError("C8: is on stream ")
             << stream.getInt() << "; there is one, 0";
    return llvm::TypeSwitch<Operation *, LogicalResult>(op)
        .Case<CmdValueOp, CmdAtenOp, CmdUpdateOp, CmdCopyOp, CmdCollectiveOp,
              CmdRecordOp, CmdWaitOp>(
            [&](auto command) { return run(command); })
        .Case<func::ReturnOp>([&](func::ReturnOp end) {
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

  LogicalResult run(CmdValueOp value) {
    auto type = cast<RankedTensorType>(value.getResult().getType());
    if (failed(checkPlace(value, value.getPlace(), type)))
      return failure();
    if (value.getState()) {
      auto state = SymbolTable::lookupNearestSymbolFrom<StateOp>(
          value, value.getStateAttr());
      if (!state)
        return value.emitOpError("C2: names the state ")
               << value.getStateAttr() << ", which does not exist";
      if (state.getTensorType() != type || getPlace(state) != value.getPlace())
        return value.emitOpError("C2: differs from the state ")
               << value.getStateAttr();
      if (value.getBase())
        return value.emitOpError("C3: is a view and a state at once");
      storages[value.getResult()] = ownerOf(state.getSymNameAttr());
      return success();
    }
    if (Value base = value.getBase()) {
      if (getPlace(base) != value.getPlace())
        return value.emitOpError("C3: has another place than its base");
      storages[value.getResult()] = ownerOf(base);
      unmade.insert(value.getResult());
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
      auto state =
          SymbolTable::lookupNearestSymbolFrom<StateOp>(update, symbol);
      if (!state)
        return update.emitOpError("C2: names the state ")
               << symbol << ", which does not exist";
      int64_t owner = ownerOf(state.getSymNameAttr());
      if (failed(checkApart(update, getPlace(state), update.getGradient())) ||
          failed(read(update, getPlace(state), owner)))
        return failure();
      write(getPlace(state), owner);
    }
    return success();
  }

  LogicalResult run(CmdCopyOp copy) {
    Value to = copy.getDestination();
    uint64_t size = copy.getBlockBytes(), blocks = copy.getBlocks();
    auto fits = [&](Value value, uint64_t offset, uint64_t stride) {
      return blocks >= 1 &&
             static_cast<unsigned __int128>(stride) * (blocks - 1) + offset +
                     size <=
                 uint64_t(getPlace(value).getBytes());
    };
    if (!fits(to, copy.getDestinationOffset(), copy.getDestinationStride()) ||
        (copy.getSource() && !fits(copy.getSource(), copy.getSourceOffset(),
                                   copy.getSourceStride())))
      return copy.emitOpError("C6: reaches past the end of a place");
    if (blocks > 1 && copy.getDestinationStride() < size)
      return copy.emitOpError("C6: its blocks lie over each other");
    if (Value from = copy.getSource()) {
      if (isView(from))
        return copy.emitOpError("C6: copies bytes of a view");
      if (failed(checkApart(copy, getPlace(from), to)))
        return failure();
      for (uint64_t b = 0; b < blocks; ++b)
        if (failed(read(copy, getPlace(from), ownerOf(from),
                        copy.getSourceOffset() + b * copy.getSourceStride(),
                        size)))
          return failure();
    }
    if (isView(to))
      return copy.emitOpError("C6: copies bytes of a view");
    for (uint64_t b = 0; b < blocks; ++b)
      write(getPlace(to), ownerOf(to),
            copy.getDestinationOffset() + b * copy.getDestinationStride(),
            size);
    return success();
  }

  LogicalResult run(CmdCollectiveOp collective) {
    Value from = collective.getSource(), to = collective.getDestination();
    shard::GridOp mesh = getMesh(module);
    if (!mesh || collective.getMeshDim() >= mesh.getShape().size())
      return collective.emitOpError("C7: is over a mesh dimension that does "
                                    "not exist");
    int64_t one =
        collective.getCount() * getElementBytes(collective.getDtype());
    int64_t all = one * mesh.getShape()[collective.getMeshDim()];
    bool gather = collective.getKind() == CollectiveKind::AllGather;
    bool scatter = collective.getKind() == CollectiveKind::ReduceScatter;
    if (getPlace(from).getBytes() != (scatter ? all : one) ||
        getPlace(to).getBytes() != (gather ? all : one))
      return collective.emitOpError("C7: moves ")
             << one << " bytes per rank, which its places of "
             << getPlace(from).getBytes() << " and " << getPlace(to).getBytes()
             << " bytes do not fit";
    if (isView(from))
      return collective.emitOpError("C7: sends a view");
    if (failed(read(collective, from)) ||
        failed(checkApart(collective, getPlace(from), to)))
      return failure();
    return writeAll(collective, to);
  }

  LogicalResult run(CmdRecordOp record) {
    if (!events.insert(record.getEvent()).second)
      return record.emitOpError("C8: records event ")
             << record.getEvent() << " for the second time";
    return success();
  }

  LogicalResult run(CmdWaitOp wait) {
    if (!events.contains(wait.getEvent()))
      return wait.emitOpError("C8: waits for event ")
             << wait.getEvent() << ", which was not recorded before";
    return success();
  }

  LogicalResult checkPlace(Operation *op, PlaceAttr place,
                           RankedTensorType type) {
    if (!place)
      return op->emitError("C2: has no place; run --fsdp-plan-memory first");
    if (place.getArena() >= int64_t(arenas.size()) ||
        place.getBytes() > arenas[place.getArena()] ||
        place.getOffset() > arenas[place.getArena()] - place.getBytes())
      return op->emitError("C2: has the place ")
             << place << ", which reaches past the end of its arena";
    if (getSpanBytes(type) > place.getBytes())
      return op->emitError("C2: needs ")
             << getSpanBytes(type) << " bytes, its place has "
             << place.getBytes();
    return success();
  }

  bool isView(Value value) {
    auto declared = value.getDefiningOp<CmdValueOp>();
    return declared && declared.getBase();
  }

  LogicalResult checkApart(Operation *op, PlaceAttr read, Value written) {
    PlaceAttr place = getPlace(written);
    if (read.getArena() != place.getArena() || !read.getBytes() ||
        !place.getBytes() ||
        read.getOffset() + read.getBytes() <= place.getOffset() ||
        place.getOffset() + place.getBytes() <= read.getOffset())
      return success();
    return op->emitOpError("C4: writes bytes that it reads");
  }

  LogicalResult read(Operation *op, Value value) {
    if (unmade.contains(value))
      return op->emitOpError("C3: reads a view that no call has made");
    return read(op, getPlace(value), ownerOf(value));
  }
  LogicalResult read(Operation *op, PlaceAttr place, int64_t owner) {
    return read(op, place, owner, 0, place.getBytes());
  }
  LogicalResult read(Operation *op, PlaceAttr place, int64_t owner,
                     uint64_t offset, uint64_t bytes) {
    auto other = owners[place.getArena()].firstOther(
        place.getOffset() + offset, place.getOffset() + offset + bytes, owner);
    if (!other)
      return success();
    InFlightDiagnostic error = op->emitOpError("C5: reads ") << name(owner);
    if (*other == plan::ByteOwners::nobody)
      return error << " before it is written";
    return error << " after " << name(*other) << " was written over it";
  }

  LogicalResult writeAll(Operation *op, Value value) {
    if (isView(value))
      return op->emitOpError("C3: writes a view");
    write(getPlace(value), ownerOf(value));
    return success();
  }
  void write(PlaceAttr place, int64_t owner) {
    write(place, owner, 0, place.getBytes());
  }
  void write(PlaceAttr place, int64_t owner, uint64_t offset, uint64_t bytes) {
    uint64_t begin = place.getOffset() + offset;
    owners[place.getArena()].write(begin, begin + bytes, owner);
  }
  std::optional<int64_t> firstOwner(PlaceAttr place) {
    return owners[place.getArena()].firstOwner(
        place.getOffset(), place.getOffset() + place.getBytes());
  }

  /// A number for the memory of a value, or of a state by its name.
  int64_t ownerOf(Value value) {
    auto [it, isNew] = storages.try_emplace(value, next);
    next += isNew;
    if (isNew)
      names.push_back("value");
    return it->second;
  }
  int64_t ownerOf(StringAttr state) {
    auto [it, isNew] = states.try_emplace(state, next);
    next += isNew;
    if (isNew)
      names.push_back("state @" + state.str());
    return it->second;
  }
  std::string name(int64_t owner) {
    std::string text = names[owner];
    for (auto [value, number] : storages)
      if (number == owner && text == "value") {
        llvm::raw_string_ostream os(text);
        os << " of " << value.getType();
        if (StringRef path = getModulePath(value.getLoc()); !path.empty())
          os << " in " << path;
        break;
      }
    return text;
  }

  func::FuncOp program;
  ModuleOp module;
  ArrayRef<int64_t> arenas;
  SmallVector<plan::ByteOwners> owners; // per arena
  DenseMap<Value, int64_t> storages;
  DenseMap<StringAttr, int64_t> states;
  SmallVector<std::string> names;
  int64_t next = 0;
  DenseSet<Value> unmade;
  DenseSet<uint64_t> events;
};

struct VerifyCommandsPass : fsdp::impl::VerifyCommandsBase<VerifyCommandsPass> {
  void runOnOperation() override {
    for (func::FuncOp program : getPrograms(getOperation()))
      if (failed(Simulation(program).run()))
        return signalPassFailure();
    markAllAnalysesPreserved();
  }
};
} // namespace

// The bytes of a program while verify-commands runs its commands.

#include "Lower/CommandMemory.h"

#include "fsdp/Transforms/Programs.h"

using namespace mlir;
using namespace fsdp;

// Values

void CommandMemory::hold(StateOp state) {
  begin(getPlace(state), ownerOf(state));
}

LogicalResult CommandMemory::hold(func::FuncOp program,
                                  BlockArgument argument) {
  PlaceAttr place = getPlace(argument);
  LogicalResult isFree = timelines[place.getArena()].visit(
      place.getOffset(), place.getOffset() + place.getBytes(),
      [&](const ByteTimeline::Entry &entry) -> LogicalResult {
        if (entry.owner == ByteTimeline::nobody)
          return success();
        return program.emitOpError("C2: argument ")
               << argument.getArgNumber() << " shares bytes with "
               << name(entry.owner);
      });
  begin(place, ownerOf(argument));
  return isFree;
}

void CommandMemory::begin(PlaceAttr place, int64_t owner) {
  timelines[place.getArena()].write(
      place.getOffset(), place.getOffset() + place.getBytes(), owner, {});
}

void CommandMemory::declare(CmdValueOp value) {
  Value result = value.getResult();
  if (FlatSymbolRefAttr state = value.getStateAttr()) {
    owners[result] = ownerOf(state.getAttr());
  } else if (Value base = value.getBase()) {
    owners[result] = ownerOf(base);
    unmade.insert(result);
  } else if (Value whole = value.getWhole()) {
    wholes[ownerOf(result)] = ownerOf(whole);
  }
}

bool CommandMemory::isView(Value value) {
  auto declared = value.getDefiningOp<CmdValueOp>();
  return declared && declared.getBase();
}

std::string CommandMemory::name(int64_t owner) {
  for (auto [state, number] : states)
    if (number == owner)
      return "state @" + state.str();
  std::string text = "value";
  llvm::raw_string_ostream os(text);
  for (auto [value, number] : owners)
    if (number == owner && !isView(value)) {
      os << " of " << value.getType();
      if (StringRef path = getModulePath(value.getLoc()); !path.empty())
        os << " in " << path;
      break;
    }
  return text;
}

// Commands

void CommandMemory::launch(Operation *op, uint32_t stream) {
  // Only ranks of one shard group see each other's states.
  if (auto collective = dyn_cast<CmdCollectiveOp>(op);
      collective && int64_t(collective.getMeshDim()) == shardAxis &&
      !collective.getRanks())
    order.meet(stream);
  now = order.launch(stream);
  commands[stream].push_back(op);
}

/// An error with a note at the command that should have been waited for.
InFlightDiagnostic CommandMemory::complain(Operation *op, Moment other) {
  InFlightDiagnostic error = op->emitOpError();
  if (other.index)
    error.attachNote(commands[other.stream][other.index - 1]->getLoc())
        << "that command is here, on stream " << other.stream;
  return error;
}

LogicalResult CommandMemory::checkApart(Operation *op, PlaceAttr read,
                                        Value written) {
  if (!overlap(read, getPlace(written)))
    return success();
  return op->emitOpError("C4: writes bytes that it reads");
}

// Reading

LogicalResult CommandMemory::read(Operation *op, Value value) {
  if (unmade.contains(value))
    return op->emitOpError("C3: reads a view that no call has made");
  return read(op, value, 0, getPlace(value).getBytes());
}

LogicalResult CommandMemory::read(Operation *op, StateOp state) {
  PlaceAttr place = getPlace(state);
  return read(op, place, ownerOf(state), 0, place.getBytes());
}

LogicalResult CommandMemory::read(Operation *op, Value value, uint64_t offset,
                                  uint64_t bytes) {
  return read(op, getPlace(value), ownerOf(value), offset, bytes);
}

LogicalResult CommandMemory::read(Operation *op, PlaceAttr place, int64_t owner,
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

// Writing

LogicalResult CommandMemory::write(Operation *op, Value value) {
  if (isView(value))
    return op->emitOpError("C3: writes a view");
  if (failed(write(op, value, 0, getPlace(value).getBytes())))
    return failure();
  return writeWindow(op, value);
}

LogicalResult CommandMemory::write(Operation *op, StateOp state) {
  PlaceAttr place = getPlace(state);
  if (failed(write(op, place, ownerOf(state), 0, place.getBytes())))
    return failure();
  return writeWindow(op, state.getSymNameAttr());
}

LogicalResult CommandMemory::write(Operation *op, Value value, uint64_t offset,
                                   uint64_t bytes) {
  return write(op, getPlace(value), ownerOf(value), offset, bytes);
}

LogicalResult CommandMemory::write(Operation *op, PlaceAttr place,
                                   int64_t owner, uint64_t offset,
                                   uint64_t bytes) {
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

LogicalResult CommandMemory::writeWindow(Operation *op, Value value) {
  auto declared = value.getDefiningOp<CmdValueOp>();
  return declared && declared.getState()
             ? writeWindow(op, declared.getStateAttr().getAttr())
             : success();
}

LogicalResult CommandMemory::writeWindow(Operation *op, StringAttr state) {
  PlaceAttr window = places.getWindow(state);
  if (!window)
    return success();
  ByteTimeline &shown = timelines[window.getArena()];
  uint64_t begin = window.getOffset(), end = begin + window.getBytes();
  LogicalResult result = shown.visit(
      begin, end, [&](const ByteTimeline::Entry &entry) -> LogicalResult {
        for (uint32_t s = 0; s < kNumStreams; ++s)
          if (!order.followsEverywhere(now.stream, {s, entry.read[s]}))
            return complain(op, {s, entry.read[s]})
                   << "C12: writes the state @" << state.getValue()
                   << ", which other ranks may still read: no collective lies "
                      "between; use gather=copy";
        return success();
      });
  shown.write(begin, end, ownerOf(state), now);
  return result;
}

// Rules of copies: of fsdp-verify-commands.

#include "Lower/VerifyCopies.h"

#include "fsdp/Analysis/Places.h"

using namespace mlir;
using namespace fsdp;

// Streams

/// The side stream that is for pieces of this direction; 0 where none is.
static int64_t getCopyStream(CmdCopyOp copy, PieceAttr piece) {
  int64_t to =
      getPlace(copy.getDestinations()[piece.getDestination()]).getArena();
  int64_t from =
      piece.getSource() < 0
          ? kHostArena
          : getPlace(copy.getSources()[piece.getSource()]).getArena();
  return from == kHostArena && to == kDeviceArena   ? plan::fetchStream
         : from == kDeviceArena && to == kHostArena ? plan::offloadStream
                                                    : plan::computeStream;
}

LogicalResult fsdp::verifyCopyStream(CmdCopyOp copy, int64_t stream) {
  for (auto piece : copy.getPieces().getAsRange<PieceAttr>())
    if (stream && stream != getCopyStream(copy, piece))
      return copy.emitOpError("C8: copies on stream ")
             << stream << ", which is not for copies of its direction";
  return success();
}

// Bytes

/// A rank keeps its part of a whole. Whichever it is, it reads no more than
/// the whole.
static LogicalResult keepPart(CmdCopyOp copy, PieceAttr piece, Value from,
                              Value to, CommandMemory &memory, int64_t shards) {
  int64_t owners = piece.getOwners();
  if (owners < 2 || shards % owners || !from)
    return copy.emitOpError("C17: keeps a part for each of ")
           << owners << " neighbours of " << shards;
  int64_t all = getPlace(from).getBytes();
  if (piece.getBlocks() != 1 || piece.getSourceOffset() ||
      piece.getDestinationOffset() || piece.getBytes() * owners != all ||
      piece.getBytes() != getPlace(to).getBytes() || memory.isView(from) ||
      copy.getPieces().size() != 1)
    return copy.emitOpError("C17: keeps ")
           << piece.getBytes() << " bytes, which are not one of " << owners
           << " equal parts of " << all << ", alone in their place";
  memory.keep(to, owners);
  return success(succeeded(memory.read(copy, from)) &&
                 succeeded(memory.write(copy, to)));
}

static LogicalResult runPiece(CmdCopyOp copy, PieceAttr piece,
                              CommandMemory &memory, int64_t shards) {
  Value to = copy.getDestinations()[piece.getDestination()], from;
  if (piece.getSource() >= 0)
    from = copy.getSources()[piece.getSource()];
  if (piece.getOwners() != 1)
    return keepPart(copy, piece, from, to, memory, shards);
  uint64_t size = piece.getBytes(), blocks = piece.getBlocks();
  auto fits = [&](Value value, uint64_t offset, uint64_t stride) {
    return blocks >= 1 &&
           static_cast<unsigned __int128>(stride) * (blocks - 1) + offset +
                   size <=
               uint64_t(getPlace(value).getBytes());
  };
  if (!fits(to, piece.getDestinationOffset(), piece.getDestinationStride()) ||
      (from && !fits(from, piece.getSourceOffset(), piece.getSourceStride())))
    return copy.emitOpError("C6: reaches past the end of a place");
  if (blocks > 1 && piece.getDestinationStride() < int64_t(size))
    return copy.emitOpError("C6: its blocks lie over each other");
  if (memory.isView(to) || (from && memory.isView(from)))
    return copy.emitOpError("C6: copies bytes of a view");
  for (uint64_t b = 0; from && b < blocks; ++b)
    if (failed(memory.read(
            copy, from, piece.getSourceOffset() + b * piece.getSourceStride(),
            size)))
      return failure();
  for (uint64_t b = 0; b < blocks; ++b)
    if (failed(memory.write(copy, to,
                            piece.getDestinationOffset() +
                                b * piece.getDestinationStride(),
                            size)))
      return failure();
  return success();
}

LogicalResult fsdp::runCopy(CmdCopyOp copy, CommandMemory &memory,
                            int64_t shards) {
  for (Value from : copy.getSources())
    for (Value to : copy.getDestinations())
      if (failed(memory.checkApart(copy, getPlace(from), to)))
        return failure();
  for (auto piece : copy.getPieces().getAsRange<PieceAttr>())
    if (failed(runPiece(copy, piece, memory, shards)))
      return failure();
  for (Value to : copy.getDestinations())
    if (failed(memory.writeWindow(copy, to)))
      return failure();
  return success();
}

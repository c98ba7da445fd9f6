#include "plan/CopyChecker.h"

#include <map>
#include <set>

using namespace fsdp::plan;

namespace {

class CopyChecker {
public:
  CopyChecker(const PlanT &plan, const ProgramT &program, uint32_t stream,
              ProgramMemory &memory)
      : plan(plan), program(program), stream(stream), memory(memory) {}

  void run(const Checked &here, const CopyT &copy) {
    here.require(C6, !copy.pieces.empty(), "copies nothing");
    std::set<int> sources, destinations;
    uint64_t blocks = 0;
    std::map<int, unsigned __int128> taken; // of parameters' bytes
    for (const auto &piece : copy.pieces) {
      here.require(C6,
                   piece != nullptr && piece->blocks >= 1 &&
                       piece->blocks <= maxBlocks - blocks,
                   "has no blocks, or more than 2^24");
      here.require(C17, piece->owners == 1 || copy.pieces.size() == 1,
                   "keeps a part beside other pieces");
      blocks += piece->blocks;
      checkPiece(here, *piece);
      sources.insert(piece->source);
      destinations.insert(piece->destination);
      if (piece->source != -1 && isWholeParameter(piece->source))
        taken[piece->source] +=
            static_cast<unsigned __int128>(piece->blocks) * piece->block_bytes;
    }
    for (auto [source, bytes] : taken)
      here.require(C28, bytes == program.values[source]->place->bytes(),
                   "copies some bytes of ", memory.valueName(source),
                   " and leaves others, or some twice");
    for (int source : sources)
      for (int destination : destinations)
        if (source != -1)
          memory.requireApart(here, *program.values[source]->place,
                              destination);
  }

private:
  /// A parameter on its own: what is gathered or fetched of it is all of it.
  bool isWholeParameter(int value) const {
    int state = program.values[value]->state;
    return state != -1 && plan.states[state]->role == Role::Parameter &&
           !plan.states[state]->is_flat;
  }

  /// Bytes that `blocks` blocks span, `stride` apart; fails where they do not
  /// fit the place.
  void checkBlocks(const Checked &here, const Place &place, uint64_t offset,
                   uint64_t stride, const PieceT &piece) {
    unsigned __int128 end = piece.block_bytes;
    end += static_cast<unsigned __int128>(stride) * (piece.blocks - 1) + offset;
    here.require(C6, end <= place.bytes(),
                 "reaches past the end of a place of ", place.bytes(),
                 " bytes");
    here.require(C6, piece.blocks == 1 || stride >= piece.block_bytes,
                 "its blocks lie over each other");
  }

  /// The side stream that is for pieces of this direction; that of compute
  /// where none is.
  uint32_t streamOf(const PieceT &piece) const {
    uint32_t to = program.values[piece.destination]->place->arena();
    uint32_t from = piece.source == -1
                        ? hostArena
                        : program.values[piece.source]->place->arena();
    return from == hostArena && to == deviceArena   ? fetchStream
           : from == deviceArena && to == hostArena ? offloadStream
                                                    : computeStream;
  }

  void checkPiece(const Checked &here, const PieceT &piece) {
    here.index(piece.destination, program.values.size(), "value");
    // Staged ones come back by copies; checkStaging says whether they may.
    bool returns = piece.source != -1 && memory.isParameter(piece.destination);
    if (!returns)
      memory.requireTarget(here, piece.destination);
    if (piece.source != -1)
      here.index(piece.source, program.values.size(), "value");
    here.require(C8, stream == computeStream || stream == streamOf(piece),
                 "runs on stream ", stream,
                 ", which is not for copies of its direction");
    if (piece.owners != 1)
      return checkKept(here, piece);
    const ValueT &to = *program.values[piece.destination];
    checkBlocks(here, *to.place, piece.destination_offset,
                piece.destination_stride, piece);
    if (piece.source != -1) {
      const ValueT &from = *program.values[piece.source];
      here.require(C6, from.view_of == -1,
                   "copies bytes of a view; copy those of what it looks into");
      checkBlocks(here, *from.place, piece.source_offset, piece.source_stride,
                  piece);
      for (uint64_t b = 0; b < piece.blocks; ++b) {
        uint64_t offset = piece.source_offset + b * piece.source_stride;
        memory.read(here, piece.source, offset, piece.block_bytes);
        here.require(C28,
                     memory.takeOut(piece.source, offset, piece.block_bytes),
                     "copies bytes that another copy took, or other ones than "
                     "when it was gathered before");
      }
      if (to.state == -1)
        memory.expectReader(piece.destination);
    }
    for (uint64_t b = 0; b < piece.blocks; ++b)
      memory.write(here, piece.destination,
                   piece.destination_offset + b * piece.destination_stride,
                   piece.block_bytes);
    if (returns)
      memory.update(here, to.state);
  }

  /// A rank keeps its part of a whole that so many neighbours have alike: parts
  /// are equal, cover the whole and fill what they are kept in. Whichever part
  /// it is, the rank reads no more than the whole.
  void checkKept(const Checked &here, const PieceT &piece) {
    here.require(C17, piece.owners > 1 && numShards(plan) % piece.owners == 0,
                 "has ", piece.owners, " owners, which do not divide the ",
                 numShards(plan), " shards");
    here.require(C17, piece.source != -1, "keeps a part of nothing");
    const ValueT &from = *program.values[piece.source],
                 &to = *program.values[piece.destination];
    unsigned __int128 all = piece.block_bytes;
    all *= piece.owners;
    here.require(C17,
                 piece.blocks == 1 && piece.source_offset == 0 &&
                     piece.destination_offset == 0 && piece.block_bytes > 0 &&
                     all == from.place->bytes() &&
                     piece.block_bytes == to.place->bytes(),
                 "keeps ", piece.block_bytes, " bytes in a place of ",
                 to.place->bytes(), ", which is not one of ", piece.owners,
                 " equal parts of ", from.place->bytes());
    here.require(C17, from.view_of == -1 && to.state == -1 && to.part_of == -1,
                 "keeps a part of a view, or in no place of its own");
    memory.read(here, piece.source, 0, from.place->bytes());
    memory.write(here, piece.destination);
    memory.expectReader(piece.destination);
    memory.keep(piece.destination, piece.source, piece.owners);
  }

  static constexpr uint64_t maxBlocks = uint64_t(1) << 24;

  const PlanT &plan;
  const ProgramT &program;
  uint32_t stream;
  ProgramMemory &memory;
};

} // namespace

void fsdp::plan::checkCopy(const Checked &here, const PlanT &plan,
                           const ProgramT &program, const CopyT &copy,
                           uint32_t stream, ProgramMemory &memory) {
  CopyChecker(plan, program, stream, memory).run(here, copy);
}

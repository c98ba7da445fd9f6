#include "plan/check/CopyChecker.h"

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
    std::map<int, unsigned __int128> taken; // of parameters' bytes
    for (const auto &piece : copy.pieces) {
      here.require(C6, piece != nullptr && piece->blocks >= 1, "has no blocks");
      here.require(C17, piece->owners == 1 || copy.pieces.size() == 1,
                   "keeps a part beside other pieces");
      checkPiece(here, *piece);
      sources.insert(piece->source);
      destinations.insert(piece->destination);
      if (piece->source != -1 && isWholeParameter(piece->source))
        taken[piece->source] +=
            static_cast<unsigned __int128>(piece->blocks) * piece->block_bytes;
    }
    checkMemory(here);
    // More than once where several ranks are sent the same.
    for (auto [source, bytes] : taken)
      here.require(C28,
                   isMultiple(bytes, program.values[source]->place->bytes()),
                   "copies some bytes of ", memory.valueName(source),
                   " and leaves others, or some twice");
    UsedBytes used;
    for (int source : sources)
      if (source != -1)
        used.add(*program.values[source]->place);
    for (int destination : destinations)
      memory.requireApart(here, used, destination);
  }

private:
  static bool isMultiple(unsigned __int128 bytes, uint64_t of) {
    return of ? bytes && bytes % of == 0 : !bytes;
  }

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
      StridedRange range(piece.source_offset, piece.block_bytes, piece.blocks,
                         piece.source_stride);
      reads[piece.source].push_back(range);
      takers[piece.source].push_back(piece.on.get());
      if (to.state == -1)
        memory.expectReader(piece.destination);
    }
    writes[piece.destination].emplace_back(piece.destination_offset,
                                           piece.block_bytes, piece.blocks,
                                           piece.destination_stride);
    if (returns)
      returned.insert(to.state);
  }

  /// What pieces read, then what they write: they are one command, and none
  /// reads where another writes.
  void checkMemory(const Checked &here) {
    for (const auto &[source, ranges] : reads) {
      for (const StridedRange &range : unionOf(ranges)) {
        // What lies between blocks is the value's too, and mostly was written
        // with them: then one read stands for all.
        uint64_t all = range.end() - range.offset;
        if (memory.mayRead(source, range.offset, all))
          memory.read(here, source, range.offset, all);
        else
          walk(range, [&](uint64_t offset, uint64_t bytes) {
            memory.read(here, source, offset, bytes);
          });
      }
      for (size_t i = 0; i < ranges.size(); ++i)
        here.require(C28, memory.takeOut(source, ranges[i], takers[source][i]),
                     "copies bytes that another copy took, or other ones than "
                     "when it was gathered before");
    }
    for (const auto &[destination, ranges] : writes)
      for (const StridedRange &range : unionOf(ranges))
        walk(range, [&](uint64_t offset, uint64_t bytes) {
          memory.write(here, destination, offset, bytes);
        });
    for (int state : returned)
      memory.update(here, state);
  }

  template <typename Fn> void walk(const StridedRange &range, Fn fn) {
    if (range.blocks > 1)
      memory.budget.keep(range.blocks);
    range.forEachBlock(fn);
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

  const PlanT &plan;
  const ProgramT &program;
  uint32_t stream;
  ProgramMemory &memory;
  std::map<int, std::vector<StridedRange>> reads, writes; // by value
  std::map<int, std::vector<const ShardRange *>> takers;  // of each of `reads`
  std::set<int> returned;                                 // states
};

} // namespace

void fsdp::plan::checkCopy(const Checked &here, const PlanT &plan,
                           const ProgramT &program, const CopyT &copy,
                           uint32_t stream, ProgramMemory &memory) {
  CopyChecker(plan, program, stream, memory).run(here, copy);
}

#ifndef FSDP_RUNTIME_COMM_TRANSFERPIECES_H
#define FSDP_RUNTIME_COMM_TRANSFERPIECES_H

#include "comm/Communicator.h"

#include <algorithm>
#include <cstddef>

namespace fsdp {

/// How a collective is made of pieces, one per rank of its group, whose
/// elements are independent of each other: which ranks' memory each reads and
/// writes. Ranks are counted in the group; all other numbers are of elements.
struct TransferPieces {
  TransferPieces(const Transfer &transfer, int ranks)
      : kind(transfer.kind), count(transfer.count),
        length(kind == plan::CollectiveKind::AllReduce
                   ? (count + ranks - 1) / ranks
                   : count) {}

  size_t begin(int piece) const {
    return kind == plan::CollectiveKind::AllReduce
               ? std::min(count, piece * length)
               : piece * length;
  }
  size_t size(int piece) const { return begin(piece + 1) - begin(piece); }
  bool reads(int piece, int rank) const {
    return kind != plan::CollectiveKind::AllGather || rank == piece;
  }
  /// Whether a piece is what one rank gets of all others'.
  bool scatters() const {
    return kind == plan::CollectiveKind::ReduceScatter ||
           kind == plan::CollectiveKind::AllToAll;
  }
  bool writes(int piece, int rank) const {
    return !scatters() || rank == piece;
  }
  /// Where the piece lies in a source, and in a destination.
  size_t sourceBegin(int piece) const {
    return kind == plan::CollectiveKind::AllGather ? 0 : begin(piece);
  }
  size_t destinationBegin(int piece) const {
    return scatters() ? 0 : begin(piece);
  }

  plan::CollectiveKind kind;
  size_t count, length;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSFERPIECES_H

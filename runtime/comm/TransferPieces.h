#ifndef FSDP_RUNTIME_COMM_TRANSFERPIECES_H
#define FSDP_RUNTIME_COMM_TRANSFERPIECES_H

#include "comm/Communicator.h"
#include "plan/Collectives.h"

#include <algorithm>
#include <cstddef>

namespace fsdp {

/// How a collective is made of pieces, one per rank of its group, whose
/// elements are independent of each other: which ranks' memory each reads and
/// writes. It follows from the kind's row alone. Ranks are counted in the
/// group; all other numbers are of elements.
struct TransferPieces {
  TransferPieces(const plan::CollectiveInfo &info, size_t count, int ranks)
      : info(info), count(count),
        length(splits() ? (count + ranks - 1) / ranks : count) {}
  TransferPieces(const Transfer &transfer, int ranks)
      : TransferPieces(plan::infoOf(transfer.kind), transfer.count, ranks) {}

  size_t begin(int piece) const {
    return splits() ? std::min(count, piece * length) : piece * length;
  }
  size_t size(int piece) const { return begin(piece + 1) - begin(piece); }
  bool reads(int piece, int rank) const {
    return gathers() ? rank == piece : gives(rank);
  }
  bool writes(int piece, int rank) const {
    return !scatters() || rank == piece;
  }
  /// Where the piece lies in a source, and in a destination.
  size_t sourceBegin(int piece) const { return gathers() ? 0 : begin(piece); }
  size_t destinationBegin(int piece) const {
    return scatters() ? 0 : begin(piece);
  }

  /// Whether others get anything of what a rank gives: where all get one and
  /// the same, and nothing is added up, it is the first rank's.
  bool gives(int rank) const { return rank == 0 || !splits() || info.reduces; }
  /// Where in a rank's source lies what another one gets of it.
  size_t sourceOf(int reader) const { return scatters() ? reader * count : 0; }
  /// Where in a destination lies what comes from a rank, unless it is added up.
  size_t destinationOf(int rank) const {
    return info.receives == plan::Pieces::PerRank ? rank * count : 0;
  }
  /// Whether what one rank gets is a piece of each source.
  bool scatters() const { return info.sends == plan::Pieces::PerRank; }

  const plan::CollectiveInfo &info;
  size_t count, length;

private:
  bool gathers() const { return !scatters() && !splits(); }
  /// Whether all ranks get the same of whole sources, so that each can compute
  /// a part of it for all.
  bool splits() const {
    return info.sends == plan::Pieces::One &&
           info.receives == plan::Pieces::One;
  }
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSFERPIECES_H

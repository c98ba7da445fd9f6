// Tests that any row of a collective says how ranks move its pieces, also rows
// that no kind has yet.

#include "comm/TransferPieces.h"

#include <gtest/gtest.h>

#include <numeric>

namespace fsdp {
namespace {

using plan::CollectiveInfo;
using plan::Pieces;

constexpr int ranks = 3;
constexpr size_t count = 5; // does not divide by the ranks
using Memory = std::vector<std::vector<int>>;

CollectiveInfo rowOf(Pieces sends, Pieces receives, bool reduces) {
  return {
      plan::CollectiveKind::AllGather, "a row", sends, receives, reduces, 1};
}

/// What each rank gives: numbers that say whose they are, and which.
Memory sourcesOf(const CollectiveInfo &row) {
  Memory sources(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    sources[rank].resize(row.piecesSent(ranks) * count);
    std::iota(sources[rank].begin(), sources[rank].end(), 100 * (rank + 1));
  }
  return sources;
}

/// By the definition: piece by piece, element by element.
Memory wanted(const CollectiveInfo &row, const Memory &sources) {
  Memory results(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> &result = results[rank];
    result.resize(row.piecesReceived(ranks) * count);
    for (int of = 0; of < ranks; ++of)
      for (size_t i = 0; i < count; ++i) {
        int given =
            sources[of][(row.sends == Pieces::PerRank ? rank : 0) * count + i];
        if (row.receives == Pieces::PerRank)
          result[of * count + i] = given;
        else if (row.reduces || of == 0)
          result[i] += given;
      }
  }
  return results;
}

/// By pieces that each one rank moves for all.
Memory movedByPieces(const CollectiveInfo &row, const Memory &sources) {
  TransferPieces pieces(row, count, ranks);
  Memory results(ranks, std::vector<int>(row.piecesReceived(ranks) * count, 0));
  for (int piece = 0; piece < ranks; ++piece)
    for (int to = 0; to < ranks; ++to)
      for (int from = 0; from < ranks; ++from)
        for (size_t i = 0; i < pieces.size(piece); ++i) {
          if (!pieces.writes(piece, to) || !pieces.reads(piece, from))
            continue;
          size_t place = pieces.destinationBegin(piece) + i;
          if (pieces.scatters())
            place += pieces.destinationOf(from);
          results[to][place] += sources[from][pieces.sourceBegin(piece) + i];
        }
  return results;
}

/// By ranks that each fetch what they get.
Memory fetched(const CollectiveInfo &row, const Memory &sources) {
  TransferPieces pieces(row, count, ranks);
  Memory results(ranks, std::vector<int>(row.piecesReceived(ranks) * count, 0));
  for (int to = 0; to < ranks; ++to)
    for (int from = 0; from < ranks; ++from)
      for (size_t i = 0; i < count; ++i)
        if (pieces.gives(from))
          results[to][pieces.destinationOf(from) + i] +=
              sources[from][pieces.sourceOf(to) + i];
  return results;
}

TEST(TransferPieces, FollowFromTheRow) {
  for (const CollectiveInfo &row :
       {rowOf(Pieces::One, Pieces::PerRank, false),     // all-gather
        rowOf(Pieces::PerRank, Pieces::One, true),      // reduce-scatter
        rowOf(Pieces::One, Pieces::One, true),          // all-reduce
        rowOf(Pieces::PerRank, Pieces::PerRank, false), // all-to-all
        rowOf(Pieces::One, Pieces::One, false)}) {      // broadcast
    Memory sources = sourcesOf(row);
    EXPECT_EQ(movedByPieces(row, sources), wanted(row, sources));
    EXPECT_EQ(fetched(row, sources), wanted(row, sources));
  }
}

} // namespace
} // namespace fsdp

#include "executor/HostStreams.h"

#include <cstring>

namespace fsdp {

void HostStreams::carryOut(const std::vector<CopyPiece> &pieces) {
  for (const CopyPiece &piece : pieces)
    for (uint64_t i = 0; i < piece.rows; ++i) {
      char *to = piece.to + i * piece.toStride;
      if (piece.from)
        std::memcpy(to, piece.from + i * piece.fromStride, piece.rowBytes);
      else
        std::memset(to, 0, piece.rowBytes);
    }
}

} // namespace fsdp

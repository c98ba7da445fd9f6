#ifndef FSDP_RUNTIME_COMM_TRANSFERSIGNATURE_H
#define FSDP_RUNTIME_COMM_TRANSFERSIGNATURE_H

#include "comm/Communicator.h"

#include <array>
#include <cstdint>
#include <string>

namespace fsdp {

/// What all who take part in a transfer must do alike. Ranks send each other
/// its bytes.
struct TransferSignature {
  uint64_t kind, op, dtype;
  uint64_t count; // see Transfer
  double divisor;

  static TransferSignature of(const Transfer &transfer);
  bool operator<(const TransferSignature &other) const;
  bool operator==(const TransferSignature &other) const;

  /// All of it, of what start() takes: of fewer than 2^40 elements.
  using Packed = std::array<uint64_t, 2>;
  Packed pack() const;
  static TransferSignature unpack(const Packed &packed);

  /// "an all-gather of 400 bytes (100 float32)", for people. Another rank's may
  /// be no transfer.
  std::string str() const;
};

/// Throws Error where `other` takes a transfer that this rank knows as `name`
/// for another one.
void requireSame(const char *name, int rank, const TransferSignature &mine,
                 int other, const TransferSignature &theirs);

/// What follows on how ranks differ.
constexpr char ranksDoNotDoTheSame[] =
    ": ranks do not do the same; give all ranks the same plan, data and flags";

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSFERSIGNATURE_H

#ifndef FSDP_RUNTIME_COMM_TRANSFERSIGNATURE_H
#define FSDP_RUNTIME_COMM_TRANSFERSIGNATURE_H

#include "comm/Communicator.h"

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

  /// "an all-gather of 400 bytes (100 float32)", for people. Another rank's may
  /// be no transfer.
  std::string str() const;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_TRANSFERSIGNATURE_H

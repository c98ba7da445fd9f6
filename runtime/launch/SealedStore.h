#ifndef FSDP_RUNTIME_LAUNCH_SEALEDSTORE_H
#define FSDP_RUNTIME_LAUNCH_SEALEDSTORE_H

#include "Error.h"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <string>

namespace fsdp {

/// A value was not sealed with this run's secret: another rank has another
/// secret or none, or a stranger wrote it.
struct BrokenSeal : Error {
  explicit BrokenSeal(const std::string &message) : Error(E::Secret, message) {}
};

/// `store`, whose values only those who know `secret` can read or write: each
/// is encrypted and authenticated together with its key (XChaCha20-Poly1305 of
/// libsodium), so that a value cannot be moved to another key either. `get`
/// throws BrokenSeal. Counters (`add`) are kept by the store's server, and
/// cannot be sealed; `compareSet` is refused.
c10::intrusive_ptr<c10d::Store> sealStore(c10::intrusive_ptr<c10d::Store> store,
                                          const std::string &secret);

} // namespace fsdp

#endif // FSDP_RUNTIME_LAUNCH_SEALEDSTORE_H

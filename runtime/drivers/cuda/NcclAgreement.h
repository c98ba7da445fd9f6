#ifndef FSDP_RUNTIME_DRIVERS_CUDA_NCCLAGREEMENT_H
#define FSDP_RUNTIME_DRIVERS_CUDA_NCCLAGREEMENT_H

#include <string>
#include <vector>

namespace fsdp {

/// What a rank has, as the others must know it before NCCL's first call: plain
/// bytes, which a Communicator carries.
struct NcclRank {
  int nccl = 0, runtime = 0, driver = 0; // versions; CUDA's as 13000
  char host[64] = {};                    // its name, cut where it is longer
  char gpu[64] = {};                     // Device::identity(), likewise

  NcclRank() = default;
  /// Asks the library, and this host for its name.
  explicit NcclRank(const std::string &identity);
};

/// Throws Error where two ranks have different versions of NCCL, of CUDA or of
/// the driver, or share a GPU; it names both.
void checkAgreement(const std::vector<NcclRank> &ranks);

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_NCCLAGREEMENT_H

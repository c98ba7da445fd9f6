#include "drivers/cuda/NcclAgreement.h"

#include "Error.h"
#include "drivers/cuda/CudaLibrary.h"
#include "drivers/cuda/NcclLibrary.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unistd.h>

namespace fsdp {

namespace {

template <size_t size> void put(const std::string &text, char (&field)[size]) {
  std::copy_n(text.data(), std::min(text.size(), size), field);
}

template <size_t size> std::string take(const char (&field)[size]) {
  return std::string(field, std::find(field, field + size, '\0'));
}

std::string versions(const NcclRank &rank) {
  return "NCCL " + ncclVersionText(rank.nccl) + ", CUDA " +
         cudaVersionText(rank.runtime) + " and a driver for CUDA " +
         cudaVersionText(rank.driver);
}

std::string name(size_t number, const NcclRank &rank) {
  return "rank " + std::to_string(number) + " on " + take(rank.host);
}

} // namespace

NcclRank::NcclRank(const std::string &identity) {
  ncclFunctions().getVersion(&nccl);
  cudaRuntimeGetVersion(&runtime);
  cudaDriverGetVersion(&driver);
  gethostname(host, sizeof(host) - 1);
  put(identity, gpu);
}

void checkAgreement(const std::vector<NcclRank> &ranks) {
  const NcclRank &first = ranks.front();
  std::map<std::vector<char>, size_t> users;
  for (size_t r = 0; r < ranks.size(); ++r) {
    const NcclRank &rank = ranks[r];
    if (std::tie(rank.nccl, rank.runtime, rank.driver) !=
        std::tie(first.nccl, first.runtime, first.driver))
      throw Error(E::Nccl, name(0, first) + " has " + versions(first) + ", " +
                               name(r, rank) + " has " + versions(rank) +
                               "; install the same on all hosts");
    std::vector<char> gpu(std::begin(rank.gpu), std::end(rank.gpu));
    gpu.insert(gpu.end(), std::begin(rank.host), std::end(rank.host));
    auto [user, isNew] = users.emplace(gpu, r);
    if (!isNew)
      throw Error(
          E::GpuPerRank,
          "ranks " + std::to_string(user->second) + " and " +
              std::to_string(r) + " on " + take(rank.host) +
              " have one GPU, which NCCL forbids; start as many ranks as "
              "there are GPUs, give each its own in CUDA_VISIBLE_DEVICES, "
              "or run with --threads, where ranks may share one");
  }
}

} // namespace fsdp

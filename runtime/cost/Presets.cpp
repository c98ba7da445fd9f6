// The clusters that have a name.
//
// GPUs: matrix products at the best rate measured, not the data sheet's;
// memory by the data sheet. Links are what ring collectives of large buffers
// reach: 8 x H200 gather 361 GB/s of 450, 8 x B200 682 of 900, 8 x A100 235
// of 300; networks 92 % of 25 or 50 GB/s per GPU, as when four 8 x B200 nodes
// all-reduce 1 GiB at 362 GB/s. Latencies are NCCL's for LL128: 14 us at the
// start of a collective, 1.9 us per step over NVLink, 4 us over the network;
// with them 8 x H200 all-reduce 1 MiB at 40 and 16 MiB at 230 GB/s (measured:
// 40, 220). A kernel costs 7 us at least, AutoParallel's figure. Copies from
// and to pinned host memory reach some 25 GB/s over PCIe 4.0 x16 and 55
// over 5.0.
//
// local: one thread of an x86 server core (AVX2, matrix products of 512 to
// 2,048 rows; a copy of 64 MB), ranks that share its memory.

#include "cost/Cluster.h"

namespace fsdp::cost {

namespace {

constexpr double kTera = 1e12, kGiga = 1e9, kMicro = 1e-6;

Cluster gpu(const char *name, double halfFlops, double floatFlops,
            double memoryBandwidth, double nvlink, double network,
            double pcie) {
  using plan::DType;
  Cluster cluster;
  cluster.name = name;
  cluster.flops = {{DType::BFloat16, halfFlops},
                   {DType::Float16, halfFlops},
                   {DType::Float32, floatFlops},
                   {DType::Float64, floatFlops / 2}};
  cluster.memoryBandwidth = memoryBandwidth;
  cluster.launchSeconds = 7 * kMicro;
  cluster.collectiveSeconds = 14 * kMicro;
  cluster.skewSeconds = 20 * kMicro;
  cluster.ranksPerNode = 8;
  cluster.intraNode = {nvlink, 1.9 * kMicro};
  cluster.interNode = {network, 4 * kMicro};
  cluster.hostLink = {pcie, 10 * kMicro};
  return cluster;
}

Cluster local() {
  Cluster cluster;
  cluster.name = "local";
  cluster.flops = {{plan::DType::Float32, 96 * kGiga},
                   {plan::DType::Float64, 48 * kGiga}};
  cluster.memoryBandwidth = 15 * kGiga;
  cluster.launchSeconds = 1 * kMicro;
  cluster.collectiveSeconds = 2 * kMicro;
  cluster.skewSeconds = 100 * kMicro;
  cluster.ranksPerNode = 1024;
  cluster.intraNode = {5 * kGiga, 1 * kMicro};
  cluster.interNode = {1 * kGiga, 50 * kMicro};
  cluster.hostLink = {7.5 * kGiga, 1 * kMicro};
  return cluster;
}

} // namespace

const std::vector<Cluster> &presets() {
  static const std::vector<Cluster> all = {
      local(),
      gpu("a100-40gb-x8", 271 * kTera, 19.5 * kTera, 1.56 * kTera, 235 * kGiga,
          23 * kGiga, 25 * kGiga),
      gpu("a100x8", 271 * kTera, 19.5 * kTera, 2.0 * kTera, 235 * kGiga,
          23 * kGiga, 25 * kGiga),
      gpu("h100x8", 794 * kTera, 67 * kTera, 3.35 * kTera, 361 * kGiga,
          46 * kGiga, 55 * kGiga),
      // A power cap of 500 W holds its matrix products at some 650 TFLOP/s.
      gpu("h100-96gb-x8", 650 * kTera, 67 * kTera, 2.4 * kTera, 361 * kGiga,
          46 * kGiga, 55 * kGiga),
      gpu("h200x8", 798 * kTera, 67 * kTera, 4.8 * kTera, 361 * kGiga,
          46 * kGiga, 55 * kGiga),
      gpu("b200x8", 1745 * kTera, 75 * kTera, 8.0 * kTera, 682 * kGiga,
          46 * kGiga, 55 * kGiga),
  };
  return all;
}

} // namespace fsdp::cost

#include "data/Sampler.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/randperm.h>

namespace fsdp {

std::vector<int64_t> Sampler::epoch(int64_t epoch) const {
  at::Tensor order;
  if (shuffle) {
    at::Generator generator = at::detail::createCPUGenerator(seed + epoch);
    order = at::randperm(samples, generator, at::kLong);
  } else {
    order = at::arange(samples, at::kLong);
  }
  const int64_t *all = order.const_data_ptr<int64_t>();
  std::vector<int64_t> mine(batches() * batch + last);
  for (size_t i = 0; i < mine.size(); ++i)
    mine[i] = all[i * ranks + rank];
  return mine;
}

} // namespace fsdp

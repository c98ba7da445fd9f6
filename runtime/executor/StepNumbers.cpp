#include "executor/StepNumbers.h"

#include "device/TensorAt.h"

#include <ATen/core/Tensor.h>
#include <algorithm>
#include <cstring>

namespace fsdp {

/// What calls may hold at most: each draws from one site, and takes the scalars
/// that it names.
static size_t countNumbers(const plan::PlanT &plan) {
  auto ofCall = [](const plan::AtenT &call) {
    return 1 + std::count_if(call.arguments.begin(), call.arguments.end(),
                             [](const auto &argument) {
                               return argument->kind ==
                                      plan::ArgumentKind::Scalar;
                             });
  };
  size_t count = 0;
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands)
      if (const auto *call = command->operation.AsAten())
        count += ofCall(*call);
  for (const auto &rule : plan.rules)
    for (const auto &call : rule->calls)
      count += ofCall(*call);
  return count;
}

StepNumbers::StepNumbers(const plan::PlanT &plan,
                         const std::vector<at::Tensor> &states,
                         Backend &backend)
    : states(states), backend(backend),
      numbers(countNumbers(plan) * slotBytes) {
  if (!numbers.empty())
    memory = backend.allocateScratch(numbers.size());
}

size_t StepNumbers::takeSlot() {
  TORCH_INTERNAL_ASSERT((used + 1) * slotBytes <= numbers.size());
  return used++;
}

at::Tensor StepNumbers::List::hold(size_t scalar, at::ScalarType dtype) {
  if (const plan::ScalarT &given = *scalars.at(scalar);
      given.kind == plan::ScalarKind::State)
    // Not `{}`, which is a dtype as well.
    return all.states.at(given.state).view(at::IntArrayRef());
  size_t slot = all.takeSlot();
  held.push_back({scalar, slot, dtype});
  return numberAt(all.deviceSlot(slot), dtype, all.backend.kernels().device());
}

void StepNumbers::List::set(const std::vector<double> &scalars) {
  for (const Held &number : held)
    numberAt(all.numbers.data() + number.slot * slotBytes, number.dtype,
             c10::kCPU)
        .fill_(scalars.at(number.scalar));
}

StepNumbers::List &StepNumbers::newList(const ScalarList &scalars) {
  lists.push_back(List(*this, scalars));
  return lists.back();
}

void *StepNumbers::seedOf(int64_t site) {
  auto [known, isNew] = seeds.try_emplace(site, 0);
  if (isNew)
    known->second = takeSlot();
  return deviceSlot(known->second);
}

void StepNumbers::setSeeds(const std::function<uint64_t(int64_t site)> &seed) {
  for (auto [site, slot] : seeds) {
    uint64_t value = seed(site);
    std::memcpy(numbers.data() + slot * slotBytes, &value, sizeof(value));
  }
}

void StepNumbers::send(Streams &streams) {
  if (used == 0)
    return;
  Staging &sending = sendings[numSent++ % sendings.size()];
  uint64_t bytes = used * slotBytes;
  char *from = sending.prepare(backend, streams, bytes);
  std::memcpy(from, numbers.data(), bytes);
  sending.pieces.push_back({memory.data(), from, bytes, 1, bytes, bytes});
  sending.launch(streams);
}

} // namespace fsdp

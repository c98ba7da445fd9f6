#include "train/SaveWeights.h"

#include "data/SafeTensors.h"

#include <ATen/ATen.h>

namespace fsdp {

namespace {

/// The parts of a rank's shard group, one after the other in a new first
/// dimension.
at::Tensor gather(const at::Tensor &part, const plan::PlanT &plan,
                  plan::DType dtype, Communicator &communicator) {
  plan::RankGroup shards = plan::shardGroupOf(plan, communicator.rank());
  std::vector<int64_t> shape = {shards.size};
  shape.insert(shape.end(), part.sizes().begin(), part.sizes().end());
  at::Tensor parts = at::empty(shape, part.options());
  communicator.allGather(part.const_data_ptr(), parts.data_ptr(), part.numel(),
                         dtype, shards);
  return parts;
}

/// The whole of a state of which this rank has `part`; on rank 0 alone.
at::Tensor wholeOf(const plan::PlanT &plan, const plan::StateT &state,
                   at::Tensor part, Communicator &communicator) {
  part = part.contiguous();
  if (state.shard_dim < 0)
    return part;
  at::Tensor parts = gather(part, plan, state.dtype, communicator);
  if (communicator.rank() != 0)
    return {};
  return at::cat(parts.unbind(0), state.shard_dim)
      .narrow(state.shard_dim, 0, state.shape[state.shard_dim])
      .contiguous();
}

} // namespace

void saveWeights(
    const plan::PlanT &plan, const std::string &path,
    Communicator &communicator, Executor &executor,
    const std::function<void(const std::string &)> &onPartialFile) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  auto saved = [](const plan::StateT &state) {
    return !state.is_flat &&
           (state.role == plan::Role::Parameter ||
            (state.role == plan::Role::Buffer && state.persistent));
  };
  std::unique_ptr<SafeTensorsWriter> writer;
  if (communicator.rank() == 0) {
    std::vector<SafeTensorsWriter::Tensor> tensors;
    for (const auto &state : plan.states) {
      if (!saved(*state))
        continue;
      tensors.push_back({state->fqn, state->dtype, state->shape});
      for (const std::string &alias : state->aliases)
        tensors.push_back({alias, state->dtype, state->shape});
    }
    writer = std::make_unique<SafeTensorsWriter>(path, std::move(tensors));
    onPartialFile(writer->partialPath());
  }
  auto write = [&](const plan::StateT &state, const at::Tensor &whole) {
    if (!writer)
      return;
    writer->write(state.fqn, whole.const_data_ptr());
    for (const std::string &alias : state.aliases)
      writer->write(alias, whole.const_data_ptr());
  };
  // One state, or one flat state with all that lies in it, at a time.
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    if (state.is_flat && state.role == plan::Role::Parameter) {
      at::Tensor all =
          gather(executor.state(i).cpu(), plan, state.dtype, communicator);
      for (const auto &member : plan.states)
        if (member->flat == static_cast<int>(i))
          write(*member,
                all.flatten().narrow(0, member->flat_offset,
                                     *plan::numElements(member->shape)));
    } else if (saved(state) && state.flat < 0) {
      write(state, wholeOf(plan, state, executor.state(i).cpu(), communicator));
    }
  }
  if (writer) {
    writer->finish();
    onPartialFile("");
  }
}

} // namespace fsdp

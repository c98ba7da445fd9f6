#include "train/Weights.h"

#include "Error.h"
#include "data/SafeTensors.h"
#include "executor/AtenOp.h"

#include <ATen/ATen.h>

namespace fsdp {

namespace {

at::Tensor tensorAt(void *data, plan::DType dtype,
                    const std::vector<int64_t> &shape,
                    const std::vector<int64_t> &strides) {
  return at::from_blob(data, shape, strides,
                       at::TensorOptions().dtype(toScalarType(dtype)));
}

at::Tensor localPart(const plan::PlanT &plan, size_t i, Executor &executor) {
  const plan::StateT &state = *plan.states[i];
  return tensorAt(executor.stateData(i), state.dtype, state.local_shape,
                  state.strides);
}

/// A weights file, in which tied tensors are stored under one of their names.
class WeightsFile {
public:
  explicit WeightsFile(const std::string &path)
      : shared(std::make_shared<SafeTensors>(path)), file(*shared) {}

  /// Null, and a line in problems(), when it is not there as it should be.
  const StoredTensor *get(const std::string &name, plan::DType dtype,
                          const std::vector<int64_t> &shape) {
    const StoredTensor *tensor = file.find(name);
    if (auto alias = file.metadata().find(name);
        !tensor && alias != file.metadata().end())
      tensor = file.find(alias->second);
    std::string problem;
    if (!tensor)
      problem = "it has no " + name;
    else if (tensor->dtype != dtype || tensor->shape != shape)
      problem = name + " is " + describe(tensor->dtype, tensor->shape) +
                ", the plan has " + describe(dtype, shape);
    if (problem.empty())
      return tensor;
    list += (list.empty() ? "" : "; ") + problem;
    return nullptr;
  }
  const std::string &problems() const { return list; }

  std::shared_ptr<const SafeTensors> handle() const { return shared; }

private:
  std::shared_ptr<const SafeTensors> shared;
  const SafeTensors &file;
  std::string list;
};

std::string storedName(const plan::StateT &state) {
  bool lost = state.role == plan::Role::Buffer && !state.persistent;
  const std::string prefix = "fsdp.buffer.";
  if (!lost || state.fqn.compare(0, prefix.size(), prefix) == 0)
    return state.fqn;
  return prefix + state.fqn;
}

/// Copies what of `whole` lies in a rank's piece of its flat state.
void loadMember(const plan::StateT &state, const at::Tensor &whole, int rank,
                at::Tensor piece) {
  int64_t begin = state.flat_offset, end = begin + whole.numel();
  int64_t first = rank * piece.numel(), last = first + piece.numel();
  int64_t from = std::max(begin, first), to = std::min(end, last);
  if (from < to)
    piece.narrow(0, from - first, to - from)
        .copy_(whole.flatten().narrow(0, from - begin, to - from));
}

/// Copies a rank's chunk of `whole` on the sharded dimension.
void loadShard(const plan::StateT &state, const at::Tensor &whole, int rank,
               at::Tensor local) {
  if (state.shard_dim < 0) {
    local.copy_(whole);
    return;
  }
  int64_t size = whole.size(state.shard_dim);
  int64_t part = local.size(state.shard_dim);
  int64_t begin = std::min(size, rank * part);
  int64_t length = std::min(size, begin + part) - begin;
  local.narrow(state.shard_dim, 0, length)
      .copy_(whole.narrow(state.shard_dim, begin, length));
}

/// All ranks' parts, one after the other in a new first dimension.
at::Tensor gather(const at::Tensor &part, plan::DType dtype,
                  Communicator &communicator) {
  std::vector<int64_t> shape = {communicator.size()};
  shape.insert(shape.end(), part.sizes().begin(), part.sizes().end());
  at::Tensor parts = at::empty(shape, part.options());
  communicator.allGather(part.const_data_ptr(), parts.data_ptr(), part.numel(),
                         dtype);
  return parts;
}

/// The whole of a state of which this rank has `part`; on rank 0 alone.
at::Tensor wholeOf(const plan::StateT &state, at::Tensor part,
                   Communicator &communicator) {
  part = part.contiguous();
  if (state.shard_dim < 0)
    return part;
  at::Tensor parts = gather(part, state.dtype, communicator);
  if (communicator.rank() != 0)
    return {};
  return at::cat(parts.unbind(0), state.shard_dim)
      .narrow(state.shard_dim, 0, state.shape[state.shard_dim])
      .contiguous();
}

} // namespace

void RepeatedInputs::set(int program, Executor &executor) const {
  for (const Input &input : inputs)
    if (input.program == program)
      executor.setInput(program, input.input, input.data);
}

RepeatedInputs loadWeights(const plan::PlanT &plan, const std::string &path,
                           int rank, Executor &executor) {
  RepeatedInputs repeated;
  for (size_t p = 0; p < plan.programs.size(); ++p)
    for (size_t i = 0; i < plan.programs[p]->inputs.size(); ++i)
      if (!plan.programs[p]->inputs[i]->from_data)
        repeated.inputs.push_back({static_cast<int>(p), i, nullptr});
  bool needed = !repeated.inputs.empty();
  for (const auto &state : plan.states)
    needed = needed || state->role != plan::Role::Optimizer;
  if (!needed)
    return repeated;
  if (path.empty())
    throw Error("the plan's parameters have no values; pass --weights FILE");

  at::AutoDispatchBelowADInplaceOrView noAutograd;
  WeightsFile file(path);
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StateT &state = *plan.states[i];
    if (state.role == plan::Role::Optimizer || state.is_flat)
      continue;
    const StoredTensor *stored =
        file.get(storedName(state), state.dtype, state.shape);
    if (!stored)
      continue;
    at::Tensor whole =
        tensorAt(const_cast<char *>(stored->data), state.dtype, state.shape,
                 plan::rowMajorStrides(state.shape));
    if (state.flat >= 0)
      loadMember(state, whole, rank, localPart(plan, state.flat, executor));
    else
      loadShard(state, whole, rank, localPart(plan, i, executor));
  }
  for (RepeatedInputs::Input &r : repeated.inputs) {
    const auto &program = *plan.programs[r.program];
    const plan::ValueT &value = *program.values[program.inputs[r.input]->value];
    const StoredTensor *stored =
        file.get("fsdp.input." + program.inputs[r.input]->name, value.dtype,
                 value.shape);
    if (stored)
      r.data = stored->data;
  }
  if (!file.problems().empty())
    throw Error("weights in " + path + " do not fit the plan: " +
                file.problems() + "; export both together");
  repeated.file = file.handle();
  return repeated;
}

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
          gather(localPart(plan, i, executor), state.dtype, communicator);
      for (const auto &member : plan.states)
        if (member->flat == static_cast<int>(i))
          write(*member,
                all.flatten().narrow(0, member->flat_offset,
                                     *plan::numElements(member->shape)));
    } else if (saved(state) && state.flat < 0) {
      write(state, wholeOf(state, localPart(plan, i, executor), communicator));
    }
  }
  if (writer) {
    writer->finish();
    onPartialFile("");
  }
}

} // namespace fsdp

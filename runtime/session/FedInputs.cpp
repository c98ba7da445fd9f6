#include "session/FedInputs.h"

#include "device/ScalarType.h"
#include "train/Batches.h"

#include <ATen/EmptyTensor.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/isnan.h>
#include <algorithm>
#include <sstream>

namespace fsdp {

static std::string nameOf(at::ScalarType type) {
  auto dtype = plan::dtypeOfScalarType(static_cast<int64_t>(type));
  return dtype ? plan::dtypeName(*dtype) : c10::toString(type);
}

/// A row-major tensor of the same values; the tensor itself where it is one,
/// which asks no operator: between two steps their code has left the caches.
static at::Tensor rowMajor(const at::Tensor &tensor) {
  if (tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg())
    return tensor;
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  at::AutoGradMode noGradient(false);
  return tensor.resolve_conj().resolve_neg().contiguous();
}

/// Whether its elements are in memory of its own, in one shape: those of
/// subclasses, as distributed or fake tensors, may be anywhere.
static bool isPlain(const at::Tensor &tensor) {
  return tensor.layout() == at::kStrided && tensor.has_storage() &&
         !tensor.is_nested() && !tensor.key_set().has(c10::DispatchKey::Python);
}

/// Whether its storage has its elements: one that a script has freed, as by
/// `untyped_storage().resize_(0)`, keeps its shape.
static bool hasMemory(const at::Tensor &tensor) {
  size_t needs = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(),
      tensor.storage_offset());
  return tensor.numel() == 0 || needs <= tensor.storage().nbytes();
}

at::Tensor FedInputs::checked(const std::string &name, const at::Tensor &tensor,
                              const plan::ValueT &value, uint64_t count) const {
  auto what = [&] { return "batch['" + name + "']"; };
  if (!tensor.defined())
    throw BatchError(what() + " is no tensor; give one, as torch.as_tensor() "
                              "makes it");
  if (!isPlain(tensor))
    throw BatchError(what() + " is no plain dense tensor; give one that is, as "
                              "to_dense() or full_tensor() do");
  if (!tensor.device().is_cpu() && tensor.device() != device)
    throw BatchError(
        what() + " is on " + tensor.device().str() + ", and the plan " +
        (device.is_cpu() ? "is for CPUs" : "runs on " + device.str()) +
        "; give it with .cpu()");
  if (tensor.scalar_type() != toScalarType(value.dtype)) {
    std::string wanted = plan::dtypeName(value.dtype);
    throw BatchError(what() + " is " + nameOf(tensor.scalar_type()) +
                     ", and the plan reads " + wanted +
                     "; convert it with .to(torch." + wanted + ")");
  }
  std::vector<int64_t> wanted = value.shape;
  if (count > 1 && !wanted.empty())
    wanted[0] *= count;
  if (tensor.sizes() != c10::IntArrayRef(wanted)) {
    std::string has =
        what() + " has shape " + plan::formatShape(tensor.sizes().vec());
    if (variants.size() > 1)
      throw BatchError(has +
                       ", and no program of the plan reads such a batch; "
                       "they read " +
                       variants.shapes() +
                       ". Export with this shape among the inputs");
    std::string reads =
        has + ", and the plan reads " + plan::formatShape(wanted);
    if (count > 1) {
      std::string all = std::to_string(count) + " micro-batches";
      throw BatchError(reads + ", that of all " + all + "; give the " + all +
                       " in a list, or as one batch that has them along "
                       "dimension 0");
    }
    throw BatchError(reads +
                     "; shapes are those of the export: drop a last batch that "
                     "is smaller, or export with a list of inputs that has "
                     "this shape too");
  }
  if (!hasMemory(tensor))
    throw BatchError(what() + " has no memory for all of its elements, since "
                              "its storage was freed or resized; give it "
                              "before that, or a clone()");
  return rowMajor(tensor);
}

/// Whether a batch has the shapes that a program reads. What else there is to
/// say of it, the same holds of all variants.
bool FedInputs::fits(const plan::ProgramT &program, const Batch &batch) const {
  for (const auto &[name, tensor] : batch)
    for (const auto &input : program.inputs)
      if (input->name == name && tensor.defined() &&
          tensor.sizes() !=
              c10::IntArrayRef(program.values[input->value]->shape))
        return false;
  return true;
}

/// A batch for `count` micro-batches from the `first` on.
void FedInputs::takeOne(const Batch &batch, uint64_t first, uint64_t count) {
  const plan::ProgramT &program = variants[chosen];
  auto find = [&](const std::string &name) {
    return std::find_if(batch.begin(), batch.end(),
                        [&](const auto &entry) { return entry.first == name; });
  };
  bool needsAll = !readsData(program);
  for (size_t i = 0; i < program.inputs.size(); ++i) {
    const plan::InputT &input = *program.inputs[i];
    auto found = find(input.name);
    if (found == batch.end()) {
      if (needsAll || input.from_data)
        throw BatchError("the batch has no '" + input.name +
                         "'; the plan reads " + inputNames(program));
      continue;
    }
    const plan::ValueT &value = *program.values[input.value];
    at::Tensor whole = checked(input.name, found->second, value, count);
    for (uint64_t m = 0; m < count; ++m)
      tensors[first + m][i] =
          count == 1 || value.shape.empty()
              ? whole
              : whole.narrow(0, m * value.shape[0], value.shape[0]);
  }
  for (const auto &[name, tensor] : batch)
    if (std::none_of(program.inputs.begin(), program.inputs.end(),
                     [&](const auto &input) { return input->name == name; }))
      throw BatchError("the batch has '" + name +
                       "', which the plan does not read; it reads " +
                       inputNames(program));
}

void FedInputs::take(const std::vector<Batch> &batches) {
  drop();
  chosen = 0;
  // Variants have no micro-batches.
  if (variants.size() > 1 && batches.size() == 1)
    for (size_t v = variants.size(); v-- > 0;)
      if (fits(variants[v], batches[0]))
        chosen = v;
  std::vector<at::Tensor> none(variants[chosen].inputs.size());
  tensors.assign(microBatches, none);
  if (batches.empty()) {
    if (!readsData(variants[chosen]))
      return;
    throw BatchError("the step needs a batch; the plan reads " +
                     inputNames(variants[chosen]));
  }
  if (batches.size() != 1 && batches.size() != microBatches)
    throw BatchError(std::to_string(batches.size()) +
                     " batches are given for a step of " +
                     std::to_string(microBatches) +
                     " micro-batches; give as many, or one that has all of "
                     "them along dimension 0");
  given = batches.size();
  for (size_t b = 0; b < given; ++b)
    try {
      takeOne(batches[b], b, microBatches / given);
    } catch (BatchError &error) {
      error.batch = b;
      throw;
    }
}

/// The first row that has one; -1: a scalar.
static std::optional<int64_t> rowWithNaN(const at::Tensor &tensor) {
  at::AutoDispatchBelowADInplaceOrView noAutograd;
  if (!tensor.defined() || !tensor.is_floating_point())
    return std::nullopt;
  at::Tensor found = at::isnan(tensor);
  if (!found.any().item<bool>())
    return std::nullopt;
  if (tensor.dim() == 0)
    return -1;
  return found.flatten(1 < found.dim() ? 1 : 0)
      .view({tensor.size(0), -1})
      .any(1)
      .nonzero()[0]
      .item<int64_t>();
}

std::optional<FoundNaN> FedInputs::findNaN() const {
  const plan::ProgramT &program = variants[chosen];
  for (size_t m = 0; m < tensors.size(); ++m)
    for (size_t i = 0; i < tensors[m].size(); ++i)
      if (auto row = rowWithNaN(tensors[m][i])) {
        bool isPart = given < microBatches; // of a batch that has all of them
        if (isPart && *row >= 0)
          *row += m * tensors[m][i].size(0);
        return FoundNaN{program.inputs[i]->name, isPart ? 0 : m, *row};
      }
  return std::nullopt;
}

void FedInputs::set(uint64_t microBatch, int to, Executor &executor) const {
  const std::vector<at::Tensor> &inputs = tensors.at(microBatch);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].defined())
      executor.setInput(to, i, inputs[i].const_data_ptr(),
                        /*onDevice=*/!inputs[i].is_cpu());
}

} // namespace fsdp

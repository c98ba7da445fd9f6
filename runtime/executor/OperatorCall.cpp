#include "executor/OperatorCall.h"

#include "Error.h"
#include "executor/ProgramTensors.h"

#include <ATen/core/Tensor.h>
#include <cstring>

namespace fsdp {

/// Whether a tensor is nothing but its elements in memory.
static bool isPlain(const at::Tensor &tensor) {
  return !tensor._is_zerotensor() && !tensor.is_conj() && !tensor.is_neg();
}

static bool isAt(const at::Tensor &result, const at::Tensor &planned) {
  return result.numel() == 0 ||
         (isPlain(result) &&
          result.const_data_ptr() == planned.const_data_ptr() &&
          hasStrides(result, planned.strides()));
}

std::optional<Cast> OperatorCall::cast() const {
  at::Tensor from = op.castTensor();
  if (!from.defined() || outputs.size() != 1)
    return std::nullopt;
  return Cast{std::move(from), outputs.front().planned};
}

void OperatorCall::run(const std::vector<double> &scalars, Counters &counters) {
  try {
    runOnce(scalars, counters);
  } catch (...) {
    // A capture that fails is followed by runs.
    memory.abandonRun(results);
    throw;
  }
  if (uint64_t bytes = memory.endRun(results))
    throw Error(E::PlanOperator, op.description() + ": its kernel keeps " +
                                     std::to_string(bytes) +
                                     " bytes that are its result's; a plan "
                                     "cannot call it");
}

/// Copying a smaller result costs a first run nothing to speak of.
static constexpr uint64_t largeOutput = 1 << 20;

/// An operator of somebody else's may return what it keeps.
void OperatorCall::expectOutputs() {
  if (!op.isPyTorchs())
    return;
  for (const Output &output : outputs) {
    uint64_t bytes = output.planned.nbytes();
    if (bytes >= largeOutput && bytes <= output.bytes)
      memory.expectOutput(static_cast<char *>(output.planned.data_ptr()),
                          bytes);
  }
}

void OperatorCall::learnOutputs() {
  for (const Output &output : outputs) {
    const at::Tensor &result = results[output.result];
    if (isPlain(result) && hasStrides(result, output.planned.strides()))
      memory.learnOutput(result, static_cast<char *>(output.planned.data_ptr()),
                         output.bytes);
  }
}

void OperatorCall::runOnce(const std::vector<double> &scalars,
                           Counters &counters) {
  if (memory.isLearning())
    expectOutputs();
  {
    OperatorMemory::Attention attention(memory);
    op.run(scalars, results);
  }
  bool astray = false;
  for (const Output &output : outputs) {
    const at::Tensor &result = results[output.result];
    if (!result.defined())
      throw Error(E::PlanOperator,
                  op.description() + ": gave no tensor for value " +
                      output.name + ", which the plan expects; export again");
    if (result.sizes() != output.planned.sizes() ||
        result.scalar_type() != output.planned.scalar_type())
      throw Error(E::PlanOperator,
                  op.description() + ": gave " + typeOf(result) +
                      " for value " + output.name + ", the plan says " +
                      typeOf(output.planned) + "; export again");
    astray |= !isAt(result, output.planned);
  }
  if (memory.isLearning())
    learnOutputs();
  if (astray)
    bringHome(counters);
}

void OperatorCall::bringHome(Counters &counters) {
  auto isAstray = [&](const Output &output) {
    return !isAt(results[output.result], output.planned);
  };
  for (const Output &output : outputs) {
    at::Tensor &result = results[output.result];
    if (!isAstray(output) || !isPlain(result))
      continue;
    // A kernel that allocates in another order than it did, or than a first run
    // expects, may leave a result where another belongs, or in other strides
    // where it belongs itself: that one is taken out of the way first.
    auto *data = static_cast<const char *>(result.const_data_ptr());
    for (const Output &other : outputs) {
      auto *place = static_cast<const char *>(other.planned.const_data_ptr());
      if (place <= data && data < place + other.bytes) {
        result = result.clone();
        break;
      }
    }
  }
  for (const Output &output : outputs)
    if (isAstray(output))
      land(results[output.result], output.planned, counters);
}

void OperatorCall::land(const at::Tensor &result, const at::Tensor &planned,
                        Counters &counters) {
  // Zeros that PyTorch does not store have no data: a sign's gradient.
  if (result._is_zerotensor()) {
    planned.zero_();
    return;
  }
  if (!memory.isLearning()) {
    Counters::Copies &copies = counters.outputsCopied[op.description()];
    ++copies.count;
    copies.bytes += result.nbytes();
  }
  // A device's own copy follows its stream.
  if (planned.is_cpu() && result.is_cpu() && isPlain(result) &&
      result.strides() == planned.strides() &&
      result.is_non_overlapping_and_dense())
    std::memcpy(planned.data_ptr(), result.const_data_ptr(), result.nbytes());
  else
    planned.copy_(result);
}

} // namespace fsdp

#include "train/Variants.h"

#include "comm/Gather.h"

namespace fsdp {

/// A word on each input: "x, y and z".
template <typename Word>
static std::string listInputs(const plan::ProgramT &program, Word &&word) {
  std::string text;
  size_t size = program.inputs.size();
  for (size_t i = 0; i < size; ++i)
    text += (i == 0          ? ""
             : i + 1 == size ? " and "
                             : ", ") +
            word(*program.inputs[i]);
  return text;
}

std::string inputNames(const plan::ProgramT &program) {
  return listInputs(program, [](const auto &input) { return input.name; });
}

/// "x [4, 6] and y [4]".
static std::string inputShapes(const plan::ProgramT &program) {
  return listInputs(program, [&](const auto &input) {
    return input.name + " " +
           plan::formatShape(program.values[input.value]->shape);
  });
}

std::string Variants::shapes() const {
  std::string text;
  for (size_t v = 0; v < size(); ++v)
    text += (v ? ", or " : "") + inputShapes((*this)[v]);
  return text;
}

int Variants::agree(Communicator &communicator, size_t chosen) const {
  if (size() == 1)
    return number(0);
  std::vector<int64_t> all =
      gatherNumbers(communicator, static_cast<int64_t>(chosen));
  for (size_t rank = 1; rank < all.size(); ++rank)
    if (all[rank] != all[0])
      throw Disagreement(
          "the ranks' batches have different shapes: rank 0 has " +
          inputShapes((*this)[all[0]]) + ", rank " + std::to_string(rank) +
          " has " + inputShapes((*this)[all[rank]]) +
          "; give all ranks batches of one shape in each step");
  return number(chosen);
}

} // namespace fsdp

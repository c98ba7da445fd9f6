// Checks programs that do the same for batches of other shapes: that a batch
// chooses one of them, and that whatever it chooses trains the same.
#include "plan/ProgramOutputs.h"
#include "plan/check/CheckerSupport.h"

#include <algorithm>
#include <set>

using namespace fsdp::plan;

namespace {

const ValueT &valueOf(const ProgramT &program, const InputT &input) {
  return *program.values[input.value];
}

/// Whether two programs take the same inputs, but for their data's shapes.
bool haveSameInputs(const ProgramT &a, const ProgramT &b) {
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(),
                    b.inputs.end(), [&](const auto &of, const auto &other) {
                      const ValueT &value = valueOf(a, *of),
                                   &variant = valueOf(b, *other);
                      return of->name == other->name &&
                             of->from_data == other->from_data &&
                             value.dtype == variant.dtype &&
                             (of->from_data || value.shape == variant.shape);
                    });
}

bool haveSameOutputs(const ProgramT &a, const ProgramT &b) {
  return std::equal(a.outputs.begin(), a.outputs.end(), b.outputs.begin(),
                    b.outputs.end(), [&](const auto &of, const auto &other) {
                      return of->name == other->name &&
                             isNumber(a, *of) == isNumber(b, *other);
                    });
}

/// The parameters that a program updates; of a flat one with the range.
std::multiset<std::pair<uint32_t, uint64_t>>
updatesOf(const ProgramT &program) {
  std::multiset<std::pair<uint32_t, uint64_t>> updates;
  for (const auto &command : program.commands)
    if (const UpdateT *update = command->operation.AsUpdate())
      updates.emplace(update->parameter, update->begin);
  return updates;
}

/// The shapes by which a batch chooses.
std::vector<std::vector<int64_t>> shapesOf(const ProgramT &program) {
  std::vector<std::vector<int64_t>> shapes;
  for (const auto &input : program.inputs)
    if (input->from_data)
      shapes.push_back(valueOf(program, *input).shape);
  return shapes;
}

} // namespace

void fsdp::plan::checkVariants(const PlanT &plan) {
  std::map<int, std::set<std::vector<std::vector<int64_t>>>> seen;
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const ProgramT &variant = *plan.programs[p];
    if (variant.variant_of == -1)
      continue;
    Checked at = Checked(plan).at(PlanEntry::Program, p);
    at.index(variant.variant_of, plan.programs.size(), "program");
    const ProgramT &first = *plan.programs[variant.variant_of];
    at.require(C33, first.variant_of == -1, "is a variant of '", first.name,
               "', which is one itself");
    at.require(C33, plan.micro_batches == 1,
               "is a variant, and a step has several micro-batches");
    at.require(C33, haveSameInputs(first, variant), "has other inputs than '",
               first.name, "'");
    at.require(C33, haveSameOutputs(first, variant), "has other outputs than '",
               first.name, "'");
    at.require(C33, updatesOf(first) == updatesOf(variant),
               "updates other parameters than '", first.name, "'");
    auto &shapes = seen[variant.variant_of];
    shapes.insert(shapesOf(first));
    at.require(C33, shapes.insert(shapesOf(variant)).second,
               "has the shapes of another variant of '", first.name, "'");
  }
}

#include "trace/Peak.h"

#include "plan/AlignUp.h"
#include "plan/check/LiveRanges.h"

#include <algorithm>
#include <map>

namespace fsdp::trace {

namespace {

/// Lists what is alive at one command.
class Lister {
public:
  Lister(const plan::PlanT &plan, const plan::ProgramT &program,
         const CommandTexts &texts, uint32_t arena)
      : plan(plan), program(program), texts(texts), arena(arena) {}

  Peak list() {
    std::vector<MemoryUse> history = memoryByKind(plan, program, arena);
    size_t most = std::max_element(history.begin(), history.end(),
                                   [](const MemoryUse &a, const MemoryUse &b) {
                                     return totalOf(a) < totalOf(b);
                                   }) -
                  history.begin();
    // In front of the commands' there is one entry more.
    now = static_cast<int>(most) - 1;
    peak.command = now < 0 ? nothing : static_cast<uint32_t>(now);
    peak.use = history[most];
    peak.bytes = totalOf(peak.use);
    addStates();
    addValues();
    std::stable_sort(peak.tensors.begin(), peak.tensors.end(),
                     [](const LiveTensor &a, const LiveTensor &b) {
                       return a.bytes > b.bytes;
                     });
    return std::move(peak);
  }

private:
  void addStates() {
    for (const auto &state : plan.states) {
      if (state->place->arena() != arena || state->flat >= 0 ||
          state->place->bytes() == 0)
        continue;
      LiveTensor tensor;
      tensor.kind = kindOf(state->role);
      tensor.bytes = state->place->bytes();
      tensor.name = state->fqn;
      tensor.type = typeOf(state->dtype, state->local_shape);
      tensor.module = moduleOf(*state);
      peak.tensors.push_back(std::move(tensor));
    }
  }

  /// The module of a state, or of the parameter that it belongs to; of a flat
  /// one, its unit.
  std::string moduleOf(const plan::StateT &state) const {
    const plan::StateT &owner =
        state.parameter < 0 ? state : *plan.states.at(state.parameter);
    if (owner.is_flat)
      return owner.unit < 0 ? "" : plan.units.at(owner.unit)->name;
    size_t dot = owner.fqn.rfind('.');
    return dot == std::string::npos ? "" : owner.fqn.substr(0, dot);
  }

  void addValues() {
    std::vector<MemoryKind> kinds = kindsOf(plan, program);
    std::vector<plan::LiveRange> ranges = plan::liveRanges(program);
    int end = static_cast<int>(program.commands.size());
    std::map<int, std::string> inputs;
    for (const auto &input : program.inputs)
      inputs[plan::rootOf(program, input->value)] = input->name;
    for (size_t v = 0; v < ranges.size(); ++v) {
      const plan::ValueT &value = *program.values[v];
      auto [first, last] = ranges[v];
      if (last < first || value.state != -1 || value.place->arena() != arena ||
          first > now || std::min(last, end - 1) < now ||
          value.place->bytes() == 0)
        continue;
      LiveTensor tensor;
      tensor.kind = kinds[v];
      tensor.bytes = alignUp(value.place->bytes());
      tensor.type = typeOf(value.dtype, value.shape);
      if (first >= 0) {
        tensor.from = static_cast<uint32_t>(first);
        const plan::CommandT &command = *program.commands[first];
        tensor.name = texts[first].name;
        tensor.module = command.location;
        tensor.source = command.source;
      } else if (auto input = inputs.find(static_cast<int>(v));
                 input != inputs.end()) {
        tensor.name = input->second;
      }
      if (last < end)
        tensor.until = static_cast<uint32_t>(last);
      peak.tensors.push_back(std::move(tensor));
    }
  }

  static std::string typeOf(plan::DType dtype,
                            const std::vector<int64_t> &shape) {
    return std::string(plan::dtypeName(dtype)) + " " + plan::formatShape(shape);
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  const CommandTexts &texts;
  uint32_t arena;
  int now = -1;
  Peak peak;
};

} // namespace

Peak peakOf(const plan::PlanT &plan, const plan::ProgramT &program,
            const CommandTexts &texts, uint32_t arena) {
  return Lister(plan, program, texts, arena).list();
}

} // namespace fsdp::trace

#include "executor/Arenas.h"

#include "Error.h"
#include "executor/PlacingAllocator.h"

#include <map>

namespace fsdp {

static uint64_t bytesOf(const plan::PlanT &plan, uint32_t arena) {
  return arena < plan.arenas.size() ? plan.arenas[arena]->bytes : 0;
}

/// Where the window shows states: each has one range there, which the gathers
/// of all programs name.
static std::vector<WindowPart> windowParts(const plan::PlanT &plan, int rank) {
  std::map<uint64_t, WindowPart> parts; // by destination: the same on all ranks
  for (const auto &program : plan.programs)
    for (const auto &command : program->commands) {
      const auto *gather = command->operation.AsCollective();
      if (!gather || !gather->mapped)
        continue;
      const plan::ValueT &source = *program->values.at(gather->source);
      const plan::Place &from = source.state < 0
                                    ? *source.place
                                    : *plan.states.at(source.state)->place;
      const plan::Place &to = *program->values.at(gather->destination)->place;
      parts[to.offset()] = {from.offset(), to.offset(),
                            gather->count * plan::dtypeBytes(gather->dtype),
                            plan::groupOf(plan, *gather, rank)};
    }
  std::vector<WindowPart> list;
  for (const auto &[offset, part] : parts)
    list.push_back(part);
  return list;
}

Arenas::Arenas(const plan::PlanT &plan, Backend &backend, uint64_t guard)
    : plan(plan), device(backend.kernels().device()) {
  ArenaLayout layout;
  layout.arenaBytes = bytesOf(plan, plan::deviceArena);
  layout.windowBytes = bytesOf(plan, plan::windowArena);
  layout.window = windowParts(plan, backend.rank());
  layout.guard = guard;
  memory = backend.allocateArena(layout);
  uint64_t hostBytes = bytesOf(plan, plan::hostArena);
  bool pinned = plan::hostArena < plan.arenas.size() &&
                plan.arenas[plan::hostArena]->pinned;
  host = backend.allocateHost(hostBytes, guard, pinned);
  lendMemory(memory->arena(), memory->arena() + layout.arenaBytes);
  lendMemory(host->arena(), host->arena() + hostBytes);
}

Arenas::~Arenas() {
  forgetMemory(memory->arena());
  forgetMemory(host->arena());
}

char *Arenas::address(const plan::Place &place, const std::string &what) const {
  uint64_t bytes = bytesOf(plan, place.arena());
  if (place.offset() > bytes || place.bytes() > bytes - place.offset())
    throw Error(E::PlanAddress,
                what + " lies outside its arena; lower the step again");
  char *const begins[] = {memory->arena(), memory->window(), host->arena()};
  return begins[place.arena()] + place.offset();
}

uint64_t Arenas::room(const plan::Place &place) const {
  return bytesOf(plan, place.arena()) - place.offset() - place.bytes();
}

} // namespace fsdp

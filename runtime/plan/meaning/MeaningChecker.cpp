// Checks that a plan computes what its sequential step does: that executing it
// on terms comes to the digests that the compiler took of the step before any
// pass changed it. What passes add to the step has no digest there; of that the
// plan says what it was when it was made.
#include "plan/check/CheckerSupport.h"
#include "plan/meaning/Meanings.h"

using namespace fsdp::plan;

namespace {

void checkProgramMeaning(const Checked &here, const PlanT &plan,
                         const ProgramT &program, const Computations &found) {
  std::set<std::pair<MeaningKind, uint32_t>> said;
  for (const auto &meaning : program.meanings) {
    here.require(C1, meaning->kind <= MeaningKind::MAX, "kind of meaning ",
                 int(meaning->kind), " is unknown");
    here.index(meaning->index,
               meaning->kind == MeaningKind::Output ? program.outputs.size()
                                                    : plan.states.size(),
               "what a meaning is of,");
    std::string what = describe(plan, program, meaning->kind, meaning->index);
    auto it = found.find({meaning->kind, meaning->index});
    here.require(C34, it != found.end() && said.insert(it->first).second,
                 "says what ", what,
                 " is, which it does not compute, or says it twice");
    const Computed &computed = it->second;
    Checked at = computed.command == -1
                     ? here
                     : here.at(PlanEntry::Command, computed.command);
    at.require(
        C34, !meaning->uncovered.empty() || computed.unknown.empty(), what,
        " cannot be compared with the sequential step's: ", computed.unknown);
    at.require(C34, heldTo(computed) == Digest{meaning->high, meaning->low},
               what,
               meaning->uncovered.empty()
                   ? " is not what the sequential step computes"
                   : " is not what it was when the plan was made");
  }
  for (const auto &[key, computed] : found)
    here.require(C34, said.count(key),
                 describe(plan, program, key.first, key.second),
                 " is computed, and the plan does not say what it is");
}

} // namespace

void fsdp::plan::checkMeanings(const PlanT &plan) {
  bool says = false;
  for (const auto &program : plan.programs)
    says |= !program->meanings.empty();
  if (!says)
    return; // made of IR that was never a captured step
  std::vector<Computations> found = computationsOf(plan, plan.micro_batches);
  int step = findProgram(plan, stepProgramName),
      before = findProgram(plan, accumulateProgramName);
  for (size_t p = 0; p < plan.programs.size(); ++p)
    checkProgramMeaning(Checked(plan).at(PlanEntry::Program, p), plan,
                        *plan.programs[p], found[p]);
  // What micro-batches add up is summed over the same ranks in each of them.
  if (before != -1)
    for (const auto &[key, computed] : found[before]) {
      auto it = found[step].find(key);
      if (key.first != MeaningKind::Gradient || it == found[step].end())
        continue;
      Checked(plan)
          .at(PlanEntry::Program, before)
          .at(PlanEntry::Command, computed.command)
          .require(
              C34,
              computed.dims == it->second.dims &&
                  computed.divisor == it->second.divisor,
              "adds to ",
              describe(plan, *plan.programs[before], key.first, key.second),
              " what is summed over other ranks than in 'step'");
    }
}

// Checks the turns of a step: that each runs once, on the batch of the first,
// and trains what is its own.
#include "plan/check/CheckerSupport.h"

#include <algorithm>
#include <set>

using namespace fsdp::plan;

namespace {

bool readSameBatch(const ProgramT &a, const ProgramT &b) {
  return std::equal(a.inputs.begin(), a.inputs.end(), b.inputs.begin(),
                    b.inputs.end(), [&](const auto &of, const auto &other) {
                      const ValueT &one = *a.values[of->value],
                                   &two = *b.values[other->value];
                      return of->name == other->name &&
                             of->from_data == other->from_data &&
                             one.dtype == two.dtype && one.shape == two.shape;
                    });
}

class TurnChecker {
public:
  explicit TurnChecker(const PlanT &plan)
      : plan(plan), isReached(plan.programs.size()) {}

  void run() {
    for (size_t p = 0; p < plan.programs.size(); ++p)
      if (int next = plan.programs[p]->next; next != -1)
        at(p).index(next, plan.programs.size(), "program");
    for (int first : findVariants(plan, stepProgramName))
      checkLine(turnsFrom(plan, first));
    for (size_t p = 0; p < plan.programs.size(); ++p)
      at(p).require(C35,
                    isReached[p] || (plan.programs[p]->turn.empty() &&
                                     plan.programs[p]->next == -1),
                    "is a turn that no step reaches");
  }

private:
  Checked at(size_t program) const {
    return Checked(plan).at(PlanEntry::Program, program);
  }
  void checkLine(const std::vector<int> &line);
  void checkUpdates(int program, std::set<uint32_t> &trained) const;

  const PlanT &plan;
  std::vector<bool> isReached;
};

/// No turn updates what an earlier one does.
void TurnChecker::checkUpdates(int program, std::set<uint32_t> &trained) const {
  std::set<uint32_t> own;
  for (const auto &command : plan.programs[program]->commands)
    if (const UpdateT *update = command->operation.AsUpdate())
      own.insert(update->parameter);
  for (uint32_t parameter : own)
    at(program).require(C35, trained.insert(parameter).second, "updates '",
                        plan.states[parameter]->fqn,
                        "', as an earlier turn does");
}

void TurnChecker::checkLine(const std::vector<int> &line) {
  const ProgramT &first = *plan.programs[line.front()];
  bool isVariant = first.variant_of != -1;
  std::vector<int> others =
      turnsFrom(plan, isVariant ? first.variant_of : line.front());
  std::set<std::string> names;
  std::set<uint32_t> trained;
  for (size_t i = 0; i < line.size(); ++i) {
    const ProgramT &turn = *plan.programs[line[i]];
    Checked here = at(line[i]);
    here.require(C35, !isReached[line[i]],
                 "is a turn of two steps, or twice of one");
    isReached[line[i]] = true;
    here.require(C35, line.size() == 1 || !turn.turn.empty(),
                 "is one of several turns, and has no name as one");
    here.require(C35, names.insert(turn.turn).second, "is a second turn of '",
                 turn.turn, "'");
    here.require(C35, readSameBatch(first, turn), "has other inputs than '",
                 first.name, "', the first turn");
    checkUpdates(line[i], trained);
    here.require(C35, line.size() == 1 || plan.micro_batches == 1,
                 "is one of several turns, and a step has several "
                 "micro-batches");
    here.require(C35,
                 !isVariant ||
                     (i < others.size() && turn.variant_of == others[i] &&
                      turn.turn == plan.programs[others[i]]->turn),
                 "is no variant of the turn in its place of '",
                 plan.programs[others.front()]->name, "'");
  }
  at(line.front())
      .require(C35, line.size() == others.size(), "has fewer turns than '",
               plan.programs[others.front()]->name, "'");
}

} // namespace

void fsdp::plan::checkTurns(const PlanT &plan) { TurnChecker(plan).run(); }

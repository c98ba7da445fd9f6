// Checks a step of several micro-batches: that what they give is summed once
// each, and that the next step begins with nothing.
#include "plan/CommandValues.h"
#include "plan/check/CheckerSupport.h"

#include <cmath>

using namespace fsdp::plan;

namespace {

/// What a program does to one gradient state.
struct Uses {
  int additions = 0, reads = 0, resets = 0;
  bool readAfterReset = false, otherWrites = false;
};

/// The number that an aten::full_like fills with; NaN where a command is none.
double fillOf(const AtenT &call) {
  bool fills = call.name == "aten::full_like" && call.overload.empty() &&
               call.arguments.size() > 1 &&
               call.arguments[1]->kind == ArgumentKind::Double;
  return fills ? call.arguments[1]->d.value_or(0) : NAN;
}

class MicroBatchChecker {
public:
  explicit MicroBatchChecker(const PlanT &plan)
      : plan(plan), uses(plan.states.size()) {}

  void run() {
    const ProgramT *step = find(stepProgramName),
                   *accumulate = find(accumulateProgramName);
    Checked at = Checked(plan).inside("micro-batches");
    at.require(C27, plan.micro_batches >= 1, "a step has none");
    at.require(C27, (plan.micro_batches > 1) == (accumulate != nullptr),
               "a step has ", plan.micro_batches, ", the plan ",
               accumulate ? "a" : "no", " program 'accumulate'");
    if (accumulate)
      checkAlike(*step, *accumulate);
    for (size_t p = 0; p < plan.programs.size(); ++p) {
      const ProgramT *program = plan.programs[p].get();
      count(*program);
      for (size_t s = 0; s < plan.states.size(); ++s)
        if (plan.states[s]->role == Role::Gradient)
          check(Checked(plan)
                    .at(PlanEntry::Program, p)
                    .inside("gradient '", plan.states[s]->fqn, "'"),
                program == step         ? Uses{0, 1, 1}
                : program == accumulate ? Uses{1, 0, 0}
                                        : Uses{},
                uses[s]);
    }
  }

private:
  const ProgramT *find(const std::string &name) const {
    for (const auto &program : plan.programs)
      if (program->name == name)
        return program.get();
    return nullptr;
  }

  /// Micro-batches differ in nothing but what becomes of their gradients.
  void checkAlike(const ProgramT &step, const ProgramT &accumulate) const {
    Checked at = Checked(plan).at(PlanEntry::Program,
                                  findProgram(plan, accumulateProgramName));
    // What is of the sums, such as a norm, the last one has in addition.
    bool same = step.inputs.size() == accumulate.inputs.size() &&
                step.outputs.size() >= accumulate.outputs.size();
    for (size_t i = 0; same && i < step.inputs.size(); ++i) {
      const InputT &a = *step.inputs[i], &b = *accumulate.inputs[i];
      const ValueT &u = *step.values[a.value], &v = *accumulate.values[b.value];
      same = a.name == b.name && a.from_data == b.from_data &&
             u.dtype == v.dtype && u.shape == v.shape && u.strides == v.strides;
    }
    for (size_t i = 0; same && i < accumulate.outputs.size(); ++i)
      same = step.outputs[i]->name == accumulate.outputs[i]->name;
    at.require(C27, same, "has other inputs or outputs than 'step'");
    for (size_t i = 0; i < accumulate.commands.size(); ++i) {
      const CommandT &command = *accumulate.commands[i];
      Checked here = at.at(PlanEntry::Command, i);
      if (const UpdateT *update = command.operation.AsUpdate()) {
        const std::string &name = plan.states[update->parameter]->fqn;
        here.require(
            C27, plan.states[update->parameter]->role == Role::Gradient,
            "updates '", name, "', which only the last micro-batch may");
        here.require(C27, addsGradient(*plan.rules[update->rule]), "changes '",
                     name, "' by a rule that is no addition");
      }
      // It would count what it sums over replicas as often as there are.
      if (const CollectiveT *collective = command.operation.AsCollective())
        here.require(C27, !isOver(plan, *collective, AxisRole::Replicate),
                     "sums over replicas, which only the last micro-batch may");
    }
  }

  void count(const ProgramT &program) {
    uses.assign(plan.states.size(), {});
    auto read = [&](int value) {
      for (; value >= 0; value = program.values[value]->view_of)
        if (int s = program.values[value]->state; s >= 0) {
          ++uses[s].reads;
          uses[s].readAfterReset |= uses[s].resets > 0;
        }
    };
    auto write = [&](int value) -> Uses * {
      int s = program.values[value]->state;
      return s < 0 ? nullptr : &uses[s];
    };
    for (const auto &command : program.commands) {
      const OperationUnion &operation = command->operation;
      const AtenT *call = operation.AsAten();
      double fill = call ? fillOf(*call) : NAN;
      Accesses accesses = accessesOf(*command);
      for (int value : accesses.reads)
        read(value);
      for (int value : accesses.writes)
        if (Uses *state = write(value))
          fill == 0 && std::signbit(fill) ? void(++state->resets)
                                          : void(state->otherWrites = true);
      if (const UpdateT *update = operation.AsUpdate())
        ++uses[update->parameter].additions;
    }
    for (const auto &output : program.outputs)
      read(output->value);
  }

  static void check(const Checked &at, const Uses &expected,
                    const Uses &found) {
    at.require(C27, found.additions == expected.additions, "is added to ",
               found.additions, " times, not ", expected.additions);
    at.require(C27, !found.otherWrites && found.resets == expected.resets,
               "is put back to -0.0 ", found.resets, " times, not ",
               expected.resets, ", or written otherwise");
    at.require(C27, (found.reads > 0) == (expected.reads > 0),
               expected.reads ? "is not read" : "is read");
    at.require(C27, !found.readAfterReset,
               "is read after it was put back to -0.0");
  }

  const PlanT &plan;
  std::vector<Uses> uses; // of the program at hand, by state
};

} // namespace

void fsdp::plan::checkMicroBatches(const PlanT &plan) {
  MicroBatchChecker(plan).run();
}

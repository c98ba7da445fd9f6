// Checks parameters that are updated in a copy, where their optimizer states
// are: that it is a copy of them, and that what becomes of it comes back.
#include "plan/CommandValues.h"
#include "plan/check/CheckerSupport.h"

using namespace fsdp::plan;

namespace {

class StagingChecker {
public:
  StagingChecker(const Checked &at, const PlanT &plan, const ProgramT &program)
      : at(at), plan(plan), program(program) {}

  void run() {
    findStaged();
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const CommandT &command = *program.commands[i];
      Checked here = at.at(PlanEntry::Command, i);
      if (const CopyT *copy = command.operation.AsCopy()) {
        for (const auto &piece : copy->pieces)
          check(here, *piece);
        continue;
      }
      const UpdateT *update = command.operation.AsUpdate();
      int changed = update ? update->staged : -1;
      int uses = changed == -1 ? 0 : -2; // read and written
      for (int value : valuesOf(command))
        uses += staged.count(value);
      here.require(C18, uses == 0,
                   "uses a staged parameter for something else than "
                   "its update");
      if (changed != -1)
        change(here, changed);
    }
    for (const auto &[value, staging] : staged)
      in(staging).require(C18, staging.state == Returned || isEmpty(value),
                          "is not copied back after its update");
  }

private:
  /// What has happened to a staged parameter. One without bytes is not copied.
  enum State { Nothing, Copied, Updated, Returned };
  struct Staging {
    uint32_t parameter;
    size_t update; // the first of its updates, a command
    State state = Nothing;
  };

  Checked in(const Staging &staging) const {
    return at.at(PlanEntry::Command, staging.update)
        .inside("'", plan.states[staging.parameter]->fqn, "'");
  }
  bool isEmpty(int value) const {
    return program.values[value]->place->bytes() == 0;
  }

  /// All updates of a parameter change it, or one copy of it in other memory,
  /// which only these updates name.
  void findStaged() {
    std::map<uint32_t, int> copies;
    for (size_t i = 0; i < program.commands.size(); ++i) {
      const UpdateT *update = program.commands[i]->operation.AsUpdate();
      if (!update)
        continue;
      Staging staging{update->parameter, i};
      auto first = copies.emplace(update->parameter, update->staged).first;
      in(staging).require(C18, first->second == update->staged,
                          "is updated in two places");
      if (update->staged == -1)
        continue;
      auto known = staged.emplace(update->staged, staging).first;
      in(staging).require(C18, known->second.parameter == update->parameter,
                          "is staged where another parameter is");
      in(staging).require(C18,
                          program.values[update->staged]->place->arena() !=
                              plan.states[update->parameter]->place->arena(),
                          "is staged in the memory that it lies in");
    }
    for (size_t i = 0; i < program.values.size(); ++i)
      for (int of : {program.values[i]->view_of, program.values[i]->part_of,
                     program.values[i]->part_of == -1 ? -1 : int(i)})
        if (auto it = staged.find(of); it != staged.end())
          in(it->second).fail(C18, "is staged in what is a part, or has views");
    for (const auto &input : program.inputs)
      if (auto it = staged.find(input->value); it != staged.end())
        in(it->second).fail(C18, "is staged in an input");
    for (const auto &output : program.outputs)
      if (auto it = staged.find(output->value); it != staged.end())
        in(it->second).fail(C18, "is staged in an output");
  }

  /// The parameter that a value is; -1: none.
  int parameterOf(int value) const {
    int state = value == -1 ? -1 : program.values[value]->state;
    bool is = state != -1 && plan.states[state]->role == Role::Parameter;
    return is ? state : -1;
  }

  void check(const Checked &here, const PieceT &piece) {
    int written = parameterOf(piece.destination);
    auto from = staged.find(piece.source), to = staged.find(piece.destination);
    if (from != staged.end()) {
      advance(here, from->second, Updated, Returned);
      requireWhole(here, piece, from->second, written);
    } else {
      here.require(C18, written == -1,
                   "writes a parameter, which only updates may write, and "
                   "copies of what they have changed");
    }
    if (to != staged.end()) {
      advance(here, to->second, Nothing, Copied);
      requireWhole(here, piece, to->second, parameterOf(piece.source));
    }
  }

  void change(const Checked &here, int value) {
    Staging &staging = staged.at(value);
    here.require(C18,
                 staging.state == Copied || staging.state == Updated ||
                     isEmpty(value),
                 "updates a staged parameter before it is copied there, or "
                 "after it was copied back");
    staging.state = Updated;
  }

  static void advance(const Checked &here, Staging &staging, State from,
                      State to) {
    here.require(C18, staging.state == from,
                 "copies a staged parameter again, or not in the order: there, "
                 "its updates, back");
    staging.state = to;
  }

  /// One piece is all of the parameter and all of its copy.
  void requireWhole(const Checked &here, const PieceT &piece,
                    const Staging &staging, int parameter) const {
    uint64_t bytes = plan.states[staging.parameter]->place->bytes();
    here.require(C18, parameter == static_cast<int>(staging.parameter),
                 "copies between a staged parameter and something else");
    here.require(C18, piece.blocks == 1 && piece.block_bytes == bytes,
                 "copies a part of a staged parameter");
  }

  const Checked &at;
  const PlanT &plan;
  const ProgramT &program;
  std::map<int, Staging> staged; // by value
};

} // namespace

void fsdp::plan::checkStaging(const Checked &at, const PlanT &plan,
                              const ProgramT &program) {
  StagingChecker(at, plan, program).run();
}

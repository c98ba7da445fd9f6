// Checks that ranks agree on what they train. The plan is run on what may
// differ between ranks, in place of numbers: a step of symbolic execution that
// needs no model. Each rank's batch is its own; a sum over ranks is
// everybody's. What changes a parameter may follow from no rank's own, so that
// a gradient which was not summed over all ranks is found, wherever it went.
#include "plan/Collectives.h"
#include "plan/CommandValues.h"
#include "plan/check/CheckerSupport.h"
#include "plan/check/LiveRanges.h"

using namespace fsdp::plan;

namespace {

/// What may part the ranks, a bit for each mesh dimension (bitsOf). `differ`:
/// ranks along it have different values, as they have different shards. `own`:
/// the value follows from what one rank alone has, its batch or its random
/// numbers. A shard differs between ranks, and yet it is no rank's own.
struct Spread {
  uint32_t differ = 0, own = 0;

  Spread &operator|=(Spread other) {
    differ |= other.differ;
    own |= other.own;
    return *this;
  }
  bool operator==(Spread other) const {
    return differ == other.differ && own == other.own;
  }
};

/// Whether an operator's result is whatever the memory held before.
bool isUnwritten(const std::string &name) {
  return name.rfind("aten::empty", 0) == 0 ||
         name.rfind("aten::new_empty", 0) == 0;
}

class AgreementChecker {
public:
  explicit AgreementChecker(const PlanT &plan)
      : plan(plan), states(plan.states.size()) {
    uint32_t all = bitsOf(plan, {0, static_cast<uint32_t>(plan.mesh.size())});
    everywhere = {all, all};
    for (size_t s = 0; s < states.size(); ++s)
      if (plan.states[s]->shard_dim != -1)
        states[s].differ = shardBit();
  }

  /// What a program leaves in buffers, and in what is summed over
  /// micro-batches, the next one finds. Where this has not settled soon, it is
  /// taken for each rank's own.
  void run() {
    constexpr int rounds = 4;
    for (int round = 0; round <= rounds; ++round) {
      std::vector<Spread> before = states;
      if (round == rounds)
        for (size_t s = 0; s < states.size(); ++s)
          if (!isAgreed(s))
            states[s] = everywhere;
      for (size_t p = 0; p < plan.programs.size(); ++p)
        follow(Checked(plan).at(PlanEntry::Program, p), *plan.programs[p]);
      if (states == before)
        return;
    }
  }

private:
  uint32_t shardBit() const {
    return bitsOf(plan, dimsOf(plan, AxisRole::Shard));
  }

  /// Whether all ranks have the same of a state, or parts of the same: of a
  /// parameter that belongs to a unit, and of its optimizer state.
  bool isAgreed(size_t s) const {
    const StateT &state = *plan.states[s];
    if (state.role == Role::Optimizer)
      return plan.states[state.parameter]->unit != -1;
    return state.role == Role::Parameter && state.unit != -1;
  }

  Spread &at(int value) {
    int root = rootOf(*program, value), state = program->values[root]->state;
    return state == -1 ? values[root] : states[state];
  }

  /// What scalars say of one rank alone, or of a state.
  Spread scalars(const std::vector<std::unique_ptr<ScalarT>> &scalars) const {
    Spread spread;
    for (const auto &scalar : scalars)
      if (scalar->kind == ScalarKind::State)
        spread |= states[scalar->state];
      else if (scalar->kind == ScalarKind::Rank)
        spread |= everywhere;
    return spread;
  }

  void follow(const Checked &here, const ProgramT &followed) {
    program = &followed;
    values.assign(program->values.size(), Spread());
    ofScalars = scalars(program->scalars);
    for (const auto &input : program->inputs)
      if (input->from_data)
        at(input->value) |= everywhere;
    for (size_t i = 0; i < program->commands.size(); ++i)
      follow(here.at(PlanEntry::Command, i), *program->commands[i]);
  }

  void follow(const Checked &here, const CommandT &command) {
    if (const AtenT *call = command.operation.AsAten()) {
      Spread spread;
      if (isUnwritten(call->name))
        spread |= everywhere;
      for (const auto &argument : call->arguments)
        if (argument->kind == ArgumentKind::Generator)
          spread |= everywhere;
        else if (argument->kind == ArgumentKind::Scalar)
          spread |= ofScalars;
      for (int value : valuesOf(command))
        spread |= at(value);
      for (int result : call->results)
        if (result != -1)
          write(here, result, spread);
    } else if (const CopyT *copy = command.operation.AsCopy()) {
      for (const auto &piece : copy->pieces)
        if (piece->source != -1) {
          Spread spread = at(piece->source);
          spread.differ |= piece->owners > 1 || piece->on ? shardBit() : 0;
          write(here, piece->destination, spread);
        }
    } else if (const CollectiveT *c = command.operation.AsCollective()) {
      Spread spread = at(c->source);
      uint32_t bits = bitsOf(plan, dimsOf(*c));
      const CollectiveInfo &info = infoOf(c->kind);
      bool isPiece = info.sends == Pieces::PerRank;
      // What ranks only exchange stays what some of them had for themselves.
      if (info.reduces || !isPiece) {
        spread.own &= ~bits;
        spread.differ &= ~bits;
      }
      if (isPiece)
        spread.differ |= bits;
      write(here, c->destination, spread);
    } else if (const UpdateT *update = command.operation.AsUpdate()) {
      change(here, *update, accessesOf(command).reads);
    }
  }

  void change(const Checked &here, const UpdateT &update,
              const std::vector<int> &reads) {
    Spread spread = scalars(plan.rules[update.rule]->scalars);
    for (int value : reads)
      spread |= at(value);
    for (uint32_t state : update.states)
      spread |= states[state];
    spread |= states[update.parameter];
    change(here, update.parameter, spread);
    for (uint32_t state : update.states)
      change(here, state, spread);
    if (update.staged != -1)
      at(update.staged) |= spread;
  }

  void write(const Checked &here, int value, Spread spread) {
    int state = program->values[rootOf(*program, value)]->state;
    state == -1 ? void(at(value) |= spread) : change(here, state, spread);
  }

  void change(const Checked &here, size_t s, Spread spread) {
    if (!isAgreed(s)) {
      states[s] |= spread;
      return;
    }
    // A dimension along which ranks have the same of it, and would no longer.
    uint32_t lost = spread.own | (spread.differ & ~states[s].differ);
    for (uint32_t d = 0; d < plan.mesh.size(); ++d)
      here.require(C32, !(lost & bitsOf(plan, {d, 1})), "changes '",
                   plan.states[s]->fqn,
                   "' by what each rank along mesh dimension '",
                   plan.mesh[d]->name, "' has for itself");
  }

  const PlanT &plan;
  Spread everywhere;
  std::vector<Spread> states;

  const ProgramT *program = nullptr;
  std::vector<Spread> values; // of roots
  Spread ofScalars;
};

} // namespace

void fsdp::plan::checkAgreement(const PlanT &plan) {
  AgreementChecker(plan).run();
}

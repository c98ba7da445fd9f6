// Checks what some ranks alone run (C37). A value that some ranks computed is
// read by these alone, and what a copy gathers of several such values has the
// same bytes written on every rank: so no rank reads what was not written
// there.
#include "plan/CommandValues.h"
#include "plan/OperationText.h"
#include "plan/check/CheckingBudget.h"
#include "plan/check/StridedRanges.h"

#include <algorithm>
#include <set>

using namespace fsdp::plan;

namespace {

bool contains(const ShardRange &all, const ShardRange &some) {
  return all.first() <= some.first() && some.end() <= all.end();
}

class SomeRanksChecker {
public:
  SomeRanksChecker(const Checked &at, const PlanT &plan,
                   const ProgramT &program, CheckingBudget &budget)
      : at(at), plan(plan), program(program), budget(budget),
        all(0, static_cast<uint32_t>(numShards(plan))),
        have(program.values.size(), all) {}

  void run() {
    for (size_t r = 0; r < plan.rules.size(); ++r)
      for (const auto &call : plan.rules[r]->calls)
        Checked(plan)
            .at(PlanEntry::Rule, r)
            .require(C37, !call->on, "some ranks alone make one of its calls");
    bool isOfAll = true;
    for (size_t i = 0; i < program.commands.size(); ++i)
      isOfAll &= !write(commandAt(i), *program.commands[i]);
    if (isOfAll)
      return;
    for (size_t i = 0; i < program.commands.size(); ++i)
      read(commandAt(i), *program.commands[i]);
    for (size_t i = 0; i < program.outputs.size(); ++i)
      requireAt(at.at(PlanEntry::Output, i), program.outputs[i]->value, all);
  }

private:
  Checked commandAt(size_t i) const { return at.at(PlanEntry::Command, i); }

  ShardRange rangeOf(const Checked &here,
                     const std::unique_ptr<ShardRange> &on) const {
    if (!on)
      return all;
    here.require(C37, on->first() < on->end() && on->end() <= all.end(),
                 "is for shards from ", on->first(), " up to ", on->end(),
                 ", there are ", all.end());
    return *on;
  }

  /// Ranks outside `some` do not write the value: they do not have it, nor the
  /// whole of which it is a part.
  void restrict(const Checked &here, int value, const ShardRange &some) {
    here.require(C37, program.values[value]->state == -1,
                 "writes a state on some ranks alone");
    for (int v = value; v != -1; v = program.values[v]->part_of) {
      ShardRange &had = have[v];
      had = {std::max(had.first(), some.first()),
             std::min(had.end(), some.end())};
      here.require(C37, had.first() < had.end(),
                   "writes a value that other ranks alone write before");
    }
  }

  /// Whether some ranks alone run it.
  bool write(const Checked &here, const CommandT &command) {
    if (const AtenT *call = command.operation.AsAten()) {
      if (!call->on)
        return false;
      here.require(C37, !call->view, "makes a view on some ranks alone");
      ShardRange some = rangeOf(here, call->on);
      for (int result : call->results)
        if (result != -1)
          restrict(here, result, some);
      return true;
    }
    const CopyT *copy = command.operation.AsCopy();
    if (!copy || std::none_of(copy->pieces.begin(), copy->pieces.end(),
                              [](const auto &piece) { return !!piece->on; }))
      return false;
    std::map<int, std::vector<const PieceT *>> pieces; // by destination
    for (const auto &piece : copy->pieces) {
      rangeOf(here, piece->on);
      here.require(C37, !piece->on || piece->owners == 1,
                   "keeps a part on some ranks alone");
      pieces[piece->destination].push_back(piece.get());
    }
    for (const auto &[destination, of] : pieces)
      if (ShardRange some = writersOf(here, of); !contains(some, all))
        restrict(here, destination, some);
      else if (program.values[destination]->state != -1)
        here.require(
            C37,
            std::all_of(of.begin(), of.end(),
                        [](const PieceT *piece) { return !piece->on; }),
            "writes a state on some ranks alone");
    return true;
  }

  /// The ranks that write a value by such pieces, each the same bytes.
  ShardRange writersOf(const Checked &here,
                       const std::vector<const PieceT *> &pieces) const {
    std::set<uint32_t> bounds;
    for (const PieceT *piece : pieces) {
      ShardRange range = rangeOf(here, piece->on);
      bounds.insert({range.first(), range.end()});
    }
    std::optional<std::vector<StridedRange>> first;
    for (uint32_t shard : bounds) {
      if (shard == *bounds.rbegin())
        break;
      std::vector<StridedRange> written;
      budget.look(pieces.size());
      for (const PieceT *piece : pieces)
        if (runsOn(piece->on.get(), shard))
          written.emplace_back(piece->destination_offset, piece->block_bytes,
                               piece->blocks, piece->destination_stride);
      written = unionOf(std::move(written));
      here.require(C37, !first || isSame(*first, written),
                   "writes other bytes on shard ", shard, " than on shard ",
                   *bounds.begin());
      if (!first)
        first = std::move(written);
    }
    return {*bounds.begin(), *bounds.rbegin()};
  }

  static bool isSame(const std::vector<StridedRange> &a,
                     const std::vector<StridedRange> &b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [](const StridedRange &x, const StridedRange &y) {
                        return x.offset == y.offset && x.bytes == y.bytes &&
                               x.blocks == y.blocks && x.stride == y.stride;
                      });
  }

  void read(const Checked &here, const CommandT &command) const {
    if (const CopyT *copy = command.operation.AsCopy()) {
      for (const auto &piece : copy->pieces)
        requireAt(here, piece->source, rangeOf(here, piece->on));
      return;
    }
    const AtenT *call = command.operation.AsAten();
    if (call && call->view)
      return;
    ShardRange readers = call ? rangeOf(here, call->on) : all;
    for (int value : accessesOf(command).reads)
      requireAt(here, value, readers);
  }

  /// `readers` have the value, and what it is a view or a part of.
  void requireAt(const Checked &here, int value,
                 const ShardRange &readers) const {
    if (value == -1)
      return;
    auto parent = [&](int v) {
      const ValueT &one = *program.values[v];
      return one.view_of != -1 ? one.view_of : one.part_of;
    };
    for (int v = value; v != -1; v = parent(v))
      here.require(C37, contains(have[v], readers), "reads value ", value,
                   shardsText(&readers), ", which is there",
                   shardsText(&have[v]), " alone");
  }

  const Checked &at;
  const PlanT &plan;
  const ProgramT &program;
  CheckingBudget &budget;
  ShardRange all;
  std::vector<ShardRange> have; // by value
};

} // namespace

void fsdp::plan::checkSomeRanks(const Checked &at, const PlanT &plan,
                                const ProgramT &program,
                                CheckingBudget &budget) {
  SomeRanksChecker(at, plan, program, budget).run();
}

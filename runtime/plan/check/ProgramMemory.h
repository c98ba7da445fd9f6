// The bytes of a program while its commands are checked; for the checker only.
#ifndef FSDP_PLAN_CHECK_PROGRAMMEMORY_H
#define FSDP_PLAN_CHECK_PROGRAMMEMORY_H

#include "plan/check/ByteHistory.h"
#include "plan/check/CheckingBudget.h"
#include "plan/check/StridedRanges.h"

namespace fsdp::plan {

/// Who owns which bytes, and what has happened to them. Commands are told in
/// the list's order; two that touch the same bytes, one of them writing, must
/// be ordered by HappensBefore, or the plan is refused. So every way that the
/// streams can run gives each read the bytes that the list's own order gives.
class ProgramMemory {
public:
  /// Checks what each value is, and gives states and inputs their bytes.
  ProgramMemory(const PlanT &plan, const ProgramT &program,
                const PlanFacts &facts, const Checked &at,
                CheckingBudget &budget);

  std::string valueName(size_t i) const;
  /// What a view looks into in the end; any other value is its own base.
  size_t baseOf(size_t i) const { return bases[i]; }

  /// A view whose tensor is known from here on; false where it was before.
  bool make(size_t view);
  /// Each of a value's bytes is copied out of it once on a rank; out of what is
  /// restored, the same pieces as out of the whole that it was. `on`: the ranks
  /// that copy; null: all.
  bool takeOut(size_t i, const StridedRange &range, const ShardRange *on);
  /// What arrives in a value must be read by somebody.
  void expectReader(size_t i) { awaited[i] = true; }

  void requireReady(const Checked &here, int64_t i) const;
  /// A value that a command may write: memory of the program's own, a
  /// buffer or a gradient.
  /// Mapped gathers, and nothing else, write the window.
  void requireTarget(const Checked &here, int64_t i, bool mapped = false) const;
  /// Whether a value is a parameter's state.
  bool isParameter(size_t i) const;
  /// A command may not write value `b` where it uses bytes.
  void requireApart(const Checked &here, const UsedBytes &used,
                    int64_t b) const;

  /// Reads a whole value; through a view, all that the view may look at.
  void read(const Checked &here, int64_t i);
  void read(const Checked &here, int64_t i, uint64_t offset, uint64_t bytes);
  /// Whether a read of these bytes is right; it is not made.
  bool mayRead(int64_t i, uint64_t offset, uint64_t bytes) const;
  /// Writes a value; where it is a state, what its window shows changes too, by
  /// whatever command that is.
  void write(const Checked &here, int64_t i);
  void write(const Checked &here, int64_t i, uint64_t offset, uint64_t bytes);
  /// Until it is written again, the value is this rank's part of `whole`, of
  /// which so many neighbours keep theirs.
  void keep(size_t i, size_t whole, uint32_t neighbours) {
    keepers[i] = neighbours;
    wholes[i] = whole;
  }
  /// Neighbours gather in value `i` what they kept, `part` among it.
  void restore(size_t i, size_t part) { restored[i] = wholes.at(part); }
  /// 0 where it is none.
  uint32_t keepersOf(size_t i) const { return keepers[i]; }
  /// A state changes in place, and with it what its window shows.
  void update(const Checked &here, size_t state);

  /// All streams have run out: outputs and states are right then.
  void finish(const Checked &at);

  HappensBefore order;
  Moment now; // of the command that is checked
  CheckingBudget &budget;

private:
  void checkValue(const Checked &here, size_t i);
  int64_t ownerOf(size_t i) const;
  std::string ownerName(int64_t owner) const;
  int64_t wholeOf(int64_t owner) const;
  /// Nothing where it is the start of the program.
  std::optional<uint32_t> commandOf(Moment moment) const;
  std::string commandName(Moment moment) const;
  /// Calls `fn(entry)` for the history of each of these bytes of an arena.
  template <typename Fn>
  void visit(uint32_t arena, uint64_t begin, uint64_t end, Fn fn) const {
    memory[arena].visit(begin, end, [&](const ByteHistory::Entry &entry) {
      budget.look();
      fn(entry);
    });
  }
  void readBytes(const Checked &here, const Place &place, uint64_t offset,
                 uint64_t bytes, int64_t owner, const char *does = "reads");
  void writeBytes(const Checked &here, const Place &place, uint64_t offset,
                  uint64_t bytes, int64_t owner, bool everywhere = false);
  /// Other ranks see a write of a state that a window shows.
  void changeWindow(const Checked &here, size_t state);

  const PlanT &plan;
  const ProgramT &program;
  const PlanFacts &facts;
  std::vector<ByteHistory> memory; // per arena
  std::vector<size_t> bases;
  std::vector<uint32_t>
      depths;              // of views: how many lie between it and its base
  std::vector<bool> ready; // the value's tensor is known
  std::vector<bool> wasRead, wasReadWhole; // the value is read, all at once
  std::vector<bool> awaited;               // it must be read
  std::vector<bool> updated;               // per state
  std::vector<uint32_t> keepers;           // per value
  std::map<size_t, DisjointRanges> parts;  // per value that has them
  // Likewise; behind the value's number 0, or 1 and the first shard of the
  // ranks that take them.
  std::map<std::pair<size_t, uint32_t>, TakenBytes> taken;
  std::map<size_t, size_t> wholes;   // of values that are kept parts
  std::map<size_t, size_t> restored; // of values: which whole they are again
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_CHECK_PROGRAMMEMORY_H

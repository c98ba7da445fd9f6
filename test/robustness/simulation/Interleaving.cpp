#include "Interleaving.h"

#include <map>
#include <set>

namespace fsdp::test {

using namespace plan;

using Commands = std::vector<std::unique_ptr<CommandT>>;

static std::unique_ptr<CommandT> mark(uint32_t event) {
  auto command = std::make_unique<CommandT>();
  command->stream = computeStream;
  RecordT record;
  record.event = event;
  command->operation.Set(record);
  return command;
}

PlanT withTurns(const PlanT &plan) {
  PlanT marked = plan;
  for (auto &program : marked.programs) {
    Commands commands;
    for (auto &command : program->commands) {
      bool computes =
          command->operation.AsAten() || command->operation.AsUpdate();
      commands.push_back(std::move(command));
      if (computes)
        commands.push_back(mark(program->events++));
    }
    program->commands = std::move(commands);
  }
  return marked;
}

/// Takes any stream's next command for which nothing is missing. A wait for
/// what nobody records comes last: whoever runs it is told that it never ends.
static void interleave(ProgramT &program, Random &random) {
  std::map<uint32_t, std::vector<size_t>>
      streams; // commands, the next one last
  for (size_t c = program.commands.size(); c-- > 0;)
    streams[program.commands[c]->stream].push_back(c);
  std::map<uint32_t, uint64_t> weights;
  std::set<uint32_t> recorded;
  Commands commands;
  while (commands.size() < program.commands.size()) {
    if (weights.empty() || random() % 32 == 0)
      for (const auto &[stream, rest] : streams)
        weights[stream] = uint64_t{1} << random() % 12;
    std::vector<uint32_t> candidates;
    uint64_t sum = 0;
    for (const auto &[stream, rest] : streams) {
      if (rest.empty())
        continue;
      const WaitT *wait = program.commands[rest.back()]->operation.AsWait();
      if (wait && !recorded.count(wait->event))
        continue;
      candidates.push_back(stream);
      sum += weights[stream];
    }
    if (candidates.empty())
      for (const auto &[stream, rest] : streams)
        if (!rest.empty()) {
          candidates.push_back(stream);
          sum += weights[stream];
        }
    uint64_t at = random() % sum;
    size_t chosen = 0;
    while (at >= weights[candidates[chosen]])
      at -= weights[candidates[chosen++]];
    auto &rest = streams[candidates[chosen]];
    auto &command = program.commands[rest.back()];
    rest.pop_back();
    if (const RecordT *record = command->operation.AsRecord())
      recorded.insert(record->event);
    commands.push_back(std::move(command));
  }
  program.commands = std::move(commands);
}

PlanT interleaved(const PlanT &plan, Random &random) {
  PlanT changed = plan;
  for (auto &program : changed.programs)
    interleave(*program, random);
  return changed;
}

} // namespace fsdp::test

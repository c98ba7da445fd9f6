#include "trace/CommandTexts.h"

#include "plan/Collectives.h"
#include "plan/FormatText.h"
#include "plan/Names.h"
#include "plan/OperationText.h"
#include "plan/check/LiveRanges.h"
#include "trace/JsonText.h"

#include <cmath>
#include <map>

namespace fsdp::trace {

/// What people call what a collective is of.
static std::string unitOf(const plan::PlanT &plan,
                          const plan::CollectiveT &collective,
                          const std::string &location) {
  std::string of =
      collective.unit < 0 ? location : plan.units.at(collective.unit)->name;
  return of.empty() ? "the whole model" : of;
}

std::string collectiveName(const plan::PlanT &plan,
                           const plan::ProgramT &program,
                           const plan::CollectiveT &collective,
                           const std::string &location) {
  return std::string(plan::infoOf(collective.kind).name) + " of " +
         unitOf(plan, collective, location) + " (" +
         (collective.region ? plan::nameOf(collective.region) : program.name) +
         ")";
}

namespace {

/// Makes the texts of one program.
class TextWriter {
public:
  TextWriter(const plan::PlanT &plan, const plan::ProgramT &program)
      : plan(plan), program(program) {
    for (const auto &command : program.commands)
      if (const auto *collective = command->operation.AsCollective()) {
        std::string of = unitOf(plan, *collective, command->location);
        sent.emplace(plan::rootOf(program, collective->source), of);
        received.emplace(plan::rootOf(program, collective->destination), of);
      }
  }

  CommandText text(const plan::CommandT &command) {
    CommandText result;
    facts.clear();
    if (!command.location.empty())
      fact("module", jsonString(command.location));
    if (!command.source.empty())
      fact("source", jsonString(command.source));
    const plan::OperationUnion &operation = command.operation;
    switch (operation.type) {
    case plan::Operation::Aten:
      describe(*operation.AsAten(), command.location, result);
      break;
    case plan::Operation::Update:
      describe(*operation.AsUpdate(), result);
      break;
    case plan::Operation::Copy:
      describe(*operation.AsCopy(), command.location, result);
      break;
    case plan::Operation::Collective:
      describe(*operation.AsCollective(), command.location, result);
      break;
    case plan::Operation::Record:
      result.name = "record";
      break;
    case plan::Operation::Wait:
      result.name = "wait";
      break;
    case plan::Operation::NONE:
      break;
    }
    result.facts = facts;
    return result;
  }

private:
  void fact(const char *name, const std::string &json) {
    facts += (facts.empty() ? "\"" : ",\"") + std::string(name) + "\":" + json;
  }

  void describe(const plan::AtenT &aten, const std::string &location,
                CommandText &text) {
    const std::string space = "aten::";
    std::string op = aten.name.compare(0, space.size(), space) == 0
                         ? aten.name.substr(space.size())
                         : aten.name;
    text.name = location.empty() ? op : location + " " + op;
    text.category =
        aten.view ? CommandCategory::Event : CommandCategory::Kernel;
    fact("operator", jsonString(plan::operatorName(aten)));
    std::string shapes;
    for (int value : aten.results)
      if (value >= 0) {
        const plan::ValueT &v = *program.values.at(value);
        appendListed(shapes, std::string(plan::dtypeName(v.dtype)) + " " +
                                 plan::formatShape(v.shape));
      }
    fact("gives", jsonString(shapes));
    if (aten.view)
      return;
    cost::Work work = cost::workOf(program, aten);
    text.flops = work.flops;
    text.movedBytes = work.bytes;
    if (work.flops)
      fact("flops", jsonNumber(work.flops));
    fact("bytes", jsonNumber(work.bytes));
  }

  void describe(const plan::UpdateT &update, CommandText &text) {
    const plan::StateT &parameter = *plan.states.at(update.parameter);
    text.name = "update " + parameter.fqn;
    text.category = CommandCategory::Update;
    fact("rule", jsonString(plan.rules.at(update.rule)->name));
    if (parameter.unit >= 0)
      fact("unit", jsonString(plan.units.at(parameter.unit)->name));
  }

  void describe(const plan::CopyT &copy, const std::string &location,
                CommandText &text) {
    auto arena = [&](int value) {
      return plan::placeOf(plan, *program.values.at(value)).arena();
    };
    const std::string *packed = nullptr, *unpacked = nullptr;
    bool toHost = false, fromHost = false;
    double bytes = 0;
    for (const auto &piece : copy.pieces) {
      auto into = sent.find(plan::rootOf(program, piece->destination));
      if (into != sent.end())
        packed = &into->second;
      bytes += double(piece->block_bytes) * piece->blocks;
      if (piece->source < 0)
        continue;
      auto outOf = received.find(plan::rootOf(program, piece->source));
      if (outOf != received.end())
        unpacked = &outOf->second;
      bool moves = arena(piece->source) != arena(piece->destination);
      toHost |= moves && arena(piece->destination) == plan::hostArena;
      fromHost |= moves && arena(piece->source) == plan::hostArena;
    }
    const char *what = toHost     ? "copy to host"
                       : fromHost ? "copy from host"
                       : packed   ? "pack"
                       : unpacked ? "unpack"
                                  : "copy";
    const std::string &of = packed ? *packed : unpacked ? *unpacked : location;
    text.name = of.empty() ? what : std::string(what) + " " + of;
    text.category = CommandCategory::Copy;
    text.movedBytes = bytes;
    fact("bytes", jsonNumber(bytes));
    fact("pieces", jsonNumber(copy.pieces.size()));
  }

  void describe(const plan::CollectiveT &collective,
                const std::string &location, CommandText &text) {
    text.name = collectiveName(plan, program, collective, location);
    text.category = CommandCategory::Collective;
    double whole = cost::wholeBytes(program, collective);
    unsigned ranks = cost::ranksOf(plan, collective);
    // As nccl-tests count: what a rank passes on.
    double rounds = plan::infoOf(collective.kind).rounds;
    text.movedBytes =
        collective.mapped ? 0 : rounds * whole * (ranks - 1) / ranks;
    fact("unit", jsonString(unitOf(plan, collective, location)));
    if (collective.region)
      fact("region", jsonString(plan::nameOf(collective.region)));
    fact("ranks", jsonNumber(ranks));
    fact("dtype", jsonString(plan::dtypeName(collective.dtype)));
    fact("bytes", jsonNumber(whole));
    fact("bytes_sent_per_rank", jsonNumber(text.movedBytes));
    if (collective.mapped)
      fact("mapped", "true");
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  // By root: the units whose collectives send and receive it.
  std::map<int, std::string> sent, received;
  std::string facts;
};

} // namespace

CommandTexts::CommandTexts(const plan::PlanT &plan,
                           const plan::ProgramT &program,
                           const cost::Cluster &cluster) {
  TextWriter writer(plan, program);
  for (const auto &command : program.commands) {
    CommandText text = writer.text(*command);
    double seconds = cost::commandSeconds(plan, program, *command, cluster);
    if (seconds > 0)
      text.facts += (text.facts.empty() ? "" : ",") +
                    std::string("\"predicted_us\":") +
                    jsonNumber(std::round(seconds * 1e9) / 1e3);
    texts.push_back(std::move(text));
  }
}

} // namespace fsdp::trace

#include "trace/PlanJson.h"

#include "plan/Collectives.h"
#include "plan/Names.h"
#include "plan/PipelineText.h"
#include "plan/meaning/Meanings.h"
#include "trace/Exposure.h"
#include "trace/Peak.h"
#include "trace/Units.h"

#include <nlohmann/json.hpp>

namespace fsdp::trace {

using Json = nlohmann::ordered_json;

namespace {

/// What the checker demanded of the plan.
Json constraints() {
  Json all = Json::array();
#define CONSTRAINT(number, name, refuses)                                      \
  all.push_back({{"number", number}, {"name", name}, {"refuses", refuses}});
#include "plan/check/Constraints.def"
#undef CONSTRAINT
  return all;
}

double inMicros(double seconds) { return seconds * 1e6; }

Json bytesByKind(const MemoryUse &use) {
  Json kinds = Json::object();
  for (size_t kind = 0; kind < numMemoryKinds; ++kind)
    if (use[kind])
      kinds[memoryKindNames[kind]] = use[kind];
  return kinds;
}

class Writer {
public:
  Writer(const plan::LoadedPlan &loaded, const cost::Cluster &cluster)
      : plan(*loaded.plan), digest(loaded.digest), cluster(cluster) {}

  Json write() const {
    Json json = {{"plan", digest},
                 {"source", plan.source},
                 {"torch_version", plan.torch_version},
                 {"pipeline", plan.pipeline},
                 {"device", plan::nameOf(plan.device)},
                 {"cluster", cluster.name},
                 {"ranks", plan::numRanks(plan)},
                 {"micro_batches", plan.micro_batches},
                 {"seed", plan.seed},
                 {"epochs", plan.epochs},
                 {"steps", plan.steps}};
    json["options"] = Json::array();
    for (auto &[pipeline, name, value] : plan::pipelineOptions(plan.pipeline))
      json["options"].push_back(
          {{"pipeline", pipeline}, {"name", name}, {"value", value}});
    json["mesh"] = Json::array();
    for (const auto &dim : plan.mesh)
      json["mesh"].push_back({{"name", dim->name},
                              {"size", dim->size},
                              {"role", plan::nameOf(dim->role)}});
    json["arenas"] = Json::array();
    for (const auto &arena : plan.arenas)
      json["arenas"].push_back(
          {{"name", arena->name}, {"bytes", arena->bytes}});
    json["hyperparameters"] = Json::array();
    for (const auto &number : plan.hyperparameters)
      json["hyperparameters"].push_back({{"name", number->name},
                                         {"group", number->group},
                                         {"value", number->value}});
    json["constraints"] = constraints();
    json["units"] = units();
    json["states"] = states();
    json["programs"] = Json::object();
    for (const auto &program : plan.programs)
      json["programs"][program->name] = describe(*program);
    return json;
  }

private:
  Json units() const {
    Json all = Json::array();
    for (size_t unit = 0; unit < plan.units.size(); ++unit) {
      UnitFacts facts = unitFacts(plan, static_cast<int>(unit));
      all.push_back({{"unit", unitTitle(plan, static_cast<int>(unit))},
                     {"parameters", facts.parameters},
                     {"parameter_bytes", facts.wholeBytes},
                     {"bytes_per_rank", facts.rankBytes},
                     {"optimizer_bytes_per_rank", facts.optimizerBytes}});
    }
    return all;
  }

  Json states() const {
    Json all = Json::array();
    for (const auto &state : plan.states) {
      if (state->is_flat)
        continue;
      Json json = {{"name", state->fqn},
                   {"role", plan::nameOf(state->role)},
                   {"dtype", plan::dtypeName(state->dtype)},
                   {"shape", state->shape},
                   {"arena", plan::arenaNames[state->place->arena()]}};
      const plan::StateT &cut =
          state->flat >= 0 ? *plan.states[state->flat] : *state;
      json["sharded"] = cut.shard_dim >= 0;
      if (state->flat >= 0)
        json["flat"] = cut.fqn; // of whose elements a rank has some
      else
        json["rank_shape"] = state->local_shape;
      if (state->unit >= 0)
        json["unit"] = unitTitle(plan, state->unit);
      if (state->role == plan::Role::Parameter)
        json["trainable"] = state->trainable;
      all.push_back(std::move(json));
    }
    return all;
  }

  Json describe(const plan::ProgramT &program) const {
    CommandTexts texts(plan, program, cluster);
    Prediction now = follow(program, secondsOf(plan, program, cluster));
    Json json = {{"commands", program.commands.size()},
                 {"predicted_us", inMicros(now.stepSeconds)},
                 {"communication_us", inMicros(now.communicationSeconds)},
                 {"exposed_us", inMicros(now.exposedSeconds)}};
    if (!program.turn.empty())
      json["turn"] = program.turn;
    if (program.next >= 0)
      json["next"] = plan.programs.at(program.next)->name;
    json["meaning"] = meaning(program);
    json["collectives"] = collectives(program, texts, now);
    json["memory"] = Json::object();
    for (uint32_t arena : {plan::deviceArena, plan::hostArena})
      if (plan.arenas.at(arena)->bytes)
        json["memory"][plan::arenaNames[arena]] =
            describe(peakOf(plan, program, texts, arena), texts);
    json["exposed"] = Json::array();
    for (const Exposure &exposure : exposures(plan, program, texts, cluster))
      json["exposed"].push_back(describe(exposure, texts));
    json["bounds"] = Json::array();
    for (const Remedy &bound : machineBounds(plan, program, cluster))
      json["bounds"].push_back(describe(bound));
    return json;
  }

  /// Whether it is compared with the sequential step; what of it is that
  /// step's, and why the rest is not covered.
  Json meaning(const plan::ProgramT &program) const {
    Json uncovered = Json::array();
    for (const auto &meaning : program.meanings)
      if (!meaning->uncovered.empty())
        uncovered.push_back(
            {{"what",
              plan::describe(plan, program, meaning->kind, meaning->index)},
             {"why", meaning->uncovered}});
    return {{"compared", !program.meanings.empty()},
            {"covered", program.meanings.size() - uncovered.size()},
            {"uncovered", std::move(uncovered)}};
  }

  Json collectives(const plan::ProgramT &program, const CommandTexts &texts,
                   const Prediction &now) const {
    Json all = Json::array();
    for (uint32_t c = 0; c < program.commands.size(); ++c)
      if (const auto *collective =
              program.commands[c]->operation.AsCollective()) {
        Json json = {{"command", c},
                     {"name", texts[c].name},
                     {"kind", plan::infoOf(collective->kind).name},
                     {"region", plan::nameOf(collective->region)},
                     {"dtype", plan::dtypeName(collective->dtype)},
                     {"ranks", cost::ranksOf(plan, *collective)},
                     {"bytes", cost::wholeBytes(program, *collective)},
                     {"bytes_sent_per_rank", texts[c].movedBytes},
                     {"stream", plan::streamNames[program.commands[c]->stream]},
                     {"begin_us", inMicros(now.begins[c])},
                     {"end_us", inMicros(now.ends[c])}};
        if (collective->unit >= 0)
          json["unit"] = unitTitle(plan, collective->unit);
        all.push_back(std::move(json));
      }
    return all;
  }

  Json describe(const Peak &peak, const CommandTexts &texts) const {
    Json json = {{"live_bytes", peak.bytes}, {"kinds", bytesByKind(peak.use)}};
    if (peak.command != nothing) {
      json["command"] = peak.command;
      json["at"] = texts[peak.command].name;
    }
    json["tensors"] = Json::array();
    for (const LiveTensor &tensor : peak.tensors) {
      Json row = {{"kind", memoryKindNames[static_cast<size_t>(tensor.kind)]},
                  {"bytes", tensor.bytes},
                  {"name", tensor.name},
                  {"type", tensor.type}};
      if (!tensor.module.empty())
        row["module"] = tensor.module;
      if (!tensor.source.empty())
        row["source"] = tensor.source;
      if (tensor.until != nothing)
        row["until"] = texts[tensor.until].name;
      json["tensors"].push_back(std::move(row));
    }
    return json;
  }

  Json describe(const Exposure &exposure, const CommandTexts &texts) const {
    Json json = {{"command", exposure.command},
                 {"name", texts[exposure.command].name},
                 {"us", inMicros(exposure.seconds)},
                 {"cause", causeNames[static_cast<size_t>(exposure.cause)]},
                 {"why", exposure.why}};
    json["remedies"] = Json::array();
    for (const Remedy &remedy : exposure.remedies)
      json["remedies"].push_back(describe(remedy));
    return json;
  }

  Json describe(const Remedy &remedy) const {
    Json json = {{"what", remedy.what}, {"us", inMicros(remedy.seconds)}};
    if (remedy.bytes)
      json["bytes"] = remedy.bytes;
    if (remedy.changes)
      json["changes_numbers"] = true;
    return json;
  }

  const plan::PlanT &plan;
  const std::string &digest;
  const cost::Cluster &cluster;
};

} // namespace

std::string planJson(const plan::LoadedPlan &loaded,
                     const cost::Cluster &cluster) {
  return Writer(loaded, cluster)
             .write()
             .dump(1, ' ', /*ensure_ascii=*/false,
                   Json::error_handler_t::replace) +
         "\n";
}

} // namespace fsdp::trace

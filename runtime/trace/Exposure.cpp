#include "trace/Exposure.h"

#include "plan/Names.h"
#include "trace/CommandOrder.h"
#include "trace/NumberText.h"

#include <algorithm>
#include <map>

namespace fsdp::trace {

namespace {

/// What saves less than this share of the program is not worth a line.
constexpr double leastShare = 1e-4;

/// Collectives and copies to or from the host: the commands that start one on a
/// stream of its own, or are one on the compute stream.
bool isCommunication(const plan::CommandT &command) {
  return command.operation.AsCollective() ||
         (command.operation.AsCopy() && command.stream != plan::computeStream);
}

bool isInBackward(const plan::CollectiveT &collective) {
  return collective.region == plan::ProgramRegion::Backward;
}

void sortAndPrune(std::vector<Remedy> &remedies, double stepSeconds) {
  remedies.erase(std::remove_if(remedies.begin(), remedies.end(),
                                [&](const Remedy &remedy) {
                                  return remedy.seconds <
                                         leastShare * stepSeconds;
                                }),
                 remedies.end());
  std::stable_sort(
      remedies.begin(), remedies.end(),
      [](const Remedy &a, const Remedy &b) { return a.seconds > b.seconds; });
}

/// Finds the causes of one program's exposed time.
class Finder {
public:
  Finder(const plan::PlanT &plan, const plan::ProgramT &program,
         const CommandTexts &texts, const cost::Cluster &cluster)
      : plan(plan), program(program), texts(texts), cluster(cluster),
        seconds(secondsOf(plan, program, cluster)),
        now(follow(program, seconds)), awaited(awaitedCommands(program)),
        needs(needsOf(program)) {}

  std::vector<Exposure> find() {
    std::map<uint32_t, Exposure> byCommand;
    for (const Exposed &exposed : now.exposed) {
      auto wait = awaited.find(exposed.command);
      uint32_t command = wait == awaited.end() ? exposed.command : wait->second;
      // A wait for nothing takes no time.
      share(command, exposed.begin, exposed.end, byCommand);
    }
    std::vector<Exposure> all;
    for (auto &[command, exposure] : byCommand) {
      exposure.command = command;
      explain(exposure);
      sortAndPrune(exposure.remedies, now.stepSeconds);
      all.push_back(std::move(exposure));
    }
    std::stable_sort(all.begin(), all.end(),
                     [](const Exposure &a, const Exposure &b) {
                       return a.seconds > b.seconds;
                     });
    return all;
  }

private:
  const plan::CommandT &at(uint32_t command) const {
    return *program.commands[command];
  }

  /// Books exposed time on a command; on the one that brings its data as long
  /// as that one is under way.
  void share(uint32_t command, double begin, double end,
             std::map<uint32_t, Exposure> &byCommand) const {
    uint32_t last = nothing;
    for (uint32_t needed : needs[command])
      if (last == nothing || now.ends[needed] > now.ends[last])
        last = needed;
    if (last != nothing && at(last).stream != plan::computeStream &&
        now.ends[last] > begin) {
      double until = std::min(end, now.ends[last]);
      share(last, begin, until, byCommand);
      begin = until;
    }
    if (begin < end)
      byCommand[command].seconds += end - begin;
  }

  void explain(Exposure &exposure) {
    uint32_t c = exposure.command;
    if (at(c).stream == plan::computeStream) {
      exposure.cause = Cause::OnCompute;
      exposure.why = "it takes " + microsText(seconds[c]) +
                     ", in which the compute stream does nothing else";
    } else {
      explainTransfer(exposure);
    }
    addRemedies(exposure);
  }

  void explainTransfer(Exposure &exposure) {
    uint32_t c = exposure.command;
    double ready = 0, free = 0;
    uint32_t before = nothing;
    for (uint32_t needed : needs[c])
      ready = std::max(ready, now.ends[needed]);
    for (uint32_t i = c; i-- > 0;)
      if (at(i).stream == at(c).stream && seconds[i] > 0) {
        before = i;
        free = now.ends[i];
        break;
      }
    double late = std::max(0.0, now.begins[c] - std::max(ready, free));
    double queued = std::max(0.0, free - ready);
    // Of the exposed time, what goes away when each of them does.
    double ofLate = std::min(exposure.seconds, late);
    double ofQueue = std::min(exposure.seconds - ofLate, queued);
    double rest = exposure.seconds - ofLate - ofQueue;
    if (ofLate >= ofQueue && ofLate >= rest) {
      exposure.cause = Cause::Late;
      exposure.why = "it starts " + microsText(late) +
                     " after its data is there and its stream is free" +
                     whatItWaitsFor(c);
    } else if (ofQueue >= rest) {
      exposure.cause = Cause::Queued;
      exposure.why = "its data is there " + microsText(queued) + " before '" +
                     texts[before].name + "' leaves the " +
                     plan::streamNames[at(c).stream] + " stream";
    } else {
      exposure.cause = Cause::Uncovered;
      double window = now.ends[c] - exposure.seconds - std::max(ready, free);
      exposure.why = "it takes " + microsText(seconds[c]) + ", and " +
                     (ready == 0 ? "from the start of the program"
                                 : "from when its data is there") +
                     " until its result is needed only " +
                     microsText(std::max(0.0, window)) + " pass";
    }
  }

  /// What the plan's order puts before communication, beyond its data.
  std::string whatItWaitsFor(uint32_t command) const {
    for (uint32_t i = command; i-- > 0;) {
      if (at(i).stream != at(command).stream)
        continue;
      auto wait = awaited.find(i);
      if (wait == awaited.end())
        break;
      if (wait->second != nothing)
        return ": it is behind '" + texts[wait->second].name + "'";
    }
    return "";
  }

  void addRemedies(Exposure &exposure) {
    uint32_t c = exposure.command;
    const plan::CollectiveT *collective = at(c).operation.AsCollective();
    if (!collective) {
      if (isCommunication(at(c)))
        offerDeviceMemory(exposure);
      return;
    }
    if (at(c).stream == plan::computeStream)
      exposure.remedies.push_back(
          {"run it beside compute (schedule=overlap streams=3); at most",
           saved([&](std::vector<double> &changed) { changed[c] = 0; })});
    else
      offerEarlyStart(exposure, *collective);
    offerKeeping(exposure, *collective);
    offerNarrower(exposure, *collective);
  }

  void offerEarlyStart(Exposure &exposure,
                       const plan::CollectiveT &collective) {
    double shorter = now.stepSeconds -
                     follow(program, seconds, {exposure.command}).stepSeconds;
    bool gather = collective.kind == plan::CollectiveKind::AllGather;
    bool isPrefetched = gather && collective.region &&
                        collective.region != plan::ProgramRegion::Update;
    exposure.remedies.push_back(
        {"start it when its data is there (" +
             (isPrefetched ? "a larger prefetch-" +
                                 plan::nameOf(collective.region) + ", or "
                           : "") +
             "more memory-budget-mib)",
         shorter, gather ? bytesOf(collective.destination) : 0});
  }

  /// Gathers of one unit in backward repeat those of forward.
  void offerKeeping(Exposure &exposure, const plan::CollectiveT &collective) {
    if (collective.kind != plan::CollectiveKind::AllGather ||
        !isInBackward(collective))
      return;
    double shorter = saved([&](std::vector<double> &changed) {
      forUnit(collective, [&](uint32_t c, const plan::CollectiveT &other) {
        if (isInBackward(other))
          changed[c] = 0;
      });
    });
    uint64_t bytes = 0;
    forUnit(collective, [&](uint32_t, const plan::CollectiveT &other) {
      if (isInBackward(other))
        bytes += bytesOf(other.destination);
    });
    exposure.remedies.push_back({"keep " + unitName(collective) +
                                     " gathered between forward and backward "
                                     "(reshard-after-forward=false)",
                                 shorter, bytes});
  }

  /// Half the bytes of all that the unit moves in this way, less the time of
  /// the casts, which are kernels: each parameter's before and behind a
  /// reduction, and before a gather.
  void offerNarrower(Exposure &exposure, const plan::CollectiveT &collective) {
    if (collective.dtype != plan::DType::Float32 || collective.mapped ||
        collective.op != plan::ReduceOp::Sum)
      return;
    double shorter = saved([&](std::vector<double> &changed) {
      forUnit(collective, [&](uint32_t c, const plan::CollectiveT &other) {
        if (other.dtype == plan::DType::Float32 && !other.mapped)
          changed[c] = cost::collectiveSeconds(
              other.kind, cost::wholeBytes(program, other) / 2,
              cost::ranksOf(plan, other), cluster,
              plan::groupOf(plan, other, 0).stride);
      });
    });
    bool gather = collective.kind == plan::CollectiveKind::AllGather;
    forUnit(collective, [&](uint32_t, const plan::CollectiveT &other) {
      if (other.dtype == plan::DType::Float32 && !other.mapped)
        shorter -= castSeconds(other, gather);
    });
    exposure.remedies.push_back(
        {gather ? "gather " + unitName(collective) +
                      " in bfloat16 (MixedPrecisionPolicy(param_dtype))"
                : "reduce " + unitName(collective) +
                      " in bfloat16 (reduce-dtype=bfloat16)",
         shorter, 0, /*changes=*/true});
  }

  double castSeconds(const plan::CollectiveT &collective, bool gather) const {
    double casts = 0, ranks = cost::ranksOf(plan, collective);
    for (const auto &state : plan.states) {
      if (state->is_flat || state->role != plan::Role::Parameter ||
          state->unit != collective.unit)
        continue;
      double bytes = 4.0 * plan::numElements(state->shape).value_or(0);
      auto cast = [&](double of) { // four bytes to two, or back
        return cost::kernelSeconds(0, of * 1.5, plan::DType::Float32, cluster);
      };
      casts += cast(bytes / ranks) + (gather ? 0 : cast(bytes));
    }
    return casts;
  }

  void offerDeviceMemory(Exposure &exposure) {
    double shorter = saved([&](std::vector<double> &changed) {
      for (uint32_t c = 0; c < program.commands.size(); ++c)
        if (at(c).operation.AsCopy() && isCommunication(at(c)))
          changed[c] = 0;
    });
    exposure.remedies.push_back(
        {"keep all state in the device's memory (offload=none)", shorter,
         plan.arenas.at(plan::hostArena)->bytes});
  }

  template <typename Function>
  void forUnit(const plan::CollectiveT &like, Function function) const {
    for (uint32_t c = 0; c < program.commands.size(); ++c)
      if (const auto *other = at(c).operation.AsCollective())
        if (other->unit == like.unit && other->kind == like.kind)
          function(c, *other);
  }

  template <typename Change> double saved(Change change) const {
    std::vector<double> changed = seconds;
    change(changed);
    return now.stepSeconds - follow(program, changed).stepSeconds;
  }

  std::string unitName(const plan::CollectiveT &collective) const {
    if (collective.unit < 0 || plan.units[collective.unit]->name.empty())
      return "the root";
    return "'" + plan.units[collective.unit]->name + "'";
  }

  uint64_t bytesOf(uint32_t value) const {
    return plan::placeOf(plan, *program.values[value]).bytes();
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  const CommandTexts &texts;
  const cost::Cluster &cluster;
  std::vector<double> seconds;
  Prediction now;
  std::map<uint32_t, uint32_t> awaited;
  Needs needs;
};

} // namespace

std::vector<Exposure> exposures(const plan::PlanT &plan,
                                const plan::ProgramT &program,
                                const CommandTexts &texts,
                                const cost::Cluster &cluster) {
  return Finder(plan, program, texts, cluster).find();
}

std::vector<Remedy> machineBounds(const plan::PlanT &plan,
                                  const plan::ProgramT &program,
                                  const cost::Cluster &cluster) {
  std::vector<double> seconds = secondsOf(plan, program, cluster);
  double now = follow(program, seconds).stepSeconds;
  auto on = [&](const cost::Cluster &other) {
    return now - follow(program, secondsOf(plan, program, other)).stepSeconds;
  };
  cost::Cluster wide = cluster, quick = cluster;
  for (cost::Link *link : {&wide.intraNode, &wide.interNode, &wide.hostLink})
    link->bandwidth *= 2;
  for (cost::Link *link : {&quick.intraNode, &quick.interNode, &quick.hostLink})
    link->latency /= 2;
  quick.collectiveSeconds /= 2;
  quick.skewSeconds /= 2;
  std::vector<double> none = seconds;
  for (uint32_t c = 0; c < none.size(); ++c)
    if (isCommunication(*program.commands[c]))
      none[c] = 0;
  std::vector<Remedy> bounds = {
      {"no communication at all", now - follow(program, none).stepSeconds},
      {"links of twice the bandwidth", on(wide)},
      {"half the latency, as half as many collectives have of the same bytes",
       on(quick)}};
  sortAndPrune(bounds, now);
  return bounds;
}

} // namespace fsdp::trace

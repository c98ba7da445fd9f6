#include "trace/Explain.h"

#include "trace/Exposure.h"
#include "trace/NumberText.h"
#include "trace/Peak.h"
#include "trace/Units.h"

#include <algorithm>
#include <iomanip>

namespace fsdp::trace {

namespace {

/// Lines that a list has at most.
constexpr size_t maxLines = 20;

class Explainer {
public:
  Explainer(const plan::PlanT &plan, const cost::Cluster &cluster,
            std::ostream &out)
      : plan(plan), cluster(cluster), out(out) {}

  void peak() {
    forPrograms([&](const plan::ProgramT &program, const CommandTexts &texts) {
      for (uint32_t arena : {plan::deviceArena, plan::hostArena})
        if (plan.arenas.at(arena)->bytes)
          printPeak(peakOf(plan, program, texts, arena), texts,
                    plan::arenaNames[arena]);
    });
  }

  void exposed() {
    forPrograms([&](const plan::ProgramT &program, const CommandTexts &texts) {
      std::vector<Exposure> all = exposures(plan, program, texts, cluster);
      Prediction now = follow(program, secondsOf(plan, program, cluster));
      out << "  predicted on " << cluster.name << ": "
          << microsText(now.stepSeconds) << ", communication "
          << microsText(now.communicationSeconds) << ", of it exposed "
          << microsText(now.exposedSeconds) << "\n";
      for (size_t i = 0; i < std::min(all.size(), maxLines); ++i)
        printExposure(all[i], texts);
      printRest(all.size());
      for (const Remedy &bound : machineBounds(plan, program, cluster))
        out << "  with " << bound.what << ": " << microsText(bound.seconds)
            << " less\n";
    });
  }

  void unit(int index) {
    UnitFacts facts = unitFacts(plan, index);
    out << "unit " << unitTitle(plan, index) << ": " << facts.parameters
        << " parameters, " << grouped(facts.wholeBytes) << " bytes, "
        << grouped(facts.rankBytes) << " on a rank; with the optimizer's state "
        << grouped(facts.rankBytes + facts.optimizerBytes) << "\n";
    for (size_t i = 0; i < std::min(facts.states.size(), maxLines); ++i) {
      const plan::StateT &state = *plan.states[facts.states[i]];
      out << "  " << state.fqn << ": " << plan::dtypeName(state.dtype) << " "
          << plan::formatShape(state.shape) << ", a rank has "
          << plan::formatShape(state.local_shape)
          << (state.shard_dim < 0 ? ", all of it" : "")
          << (state.trainable ? "" : ", frozen") << "\n";
    }
    printRest(facts.states.size());
    forPrograms([&](const plan::ProgramT &program, const CommandTexts &texts) {
      printUnit(program, texts, index);
    });
  }

private:
  template <typename Function> void forPrograms(Function function) {
    for (const auto &program : plan.programs) {
      out << "program " << program->name << "\n";
      function(*program, CommandTexts(plan, *program, cluster));
    }
  }

  void printPeak(const Peak &peak, const CommandTexts &texts,
                 const char *arena) {
    out << "  most bytes in use of the " << arena
        << " arena: " << grouped(peak.bytes) << ", "
        << (peak.command == nothing
                ? "at the start"
                : "at command " + std::to_string(peak.command) + ", " +
                      texts[peak.command].name)
        << "\n";
    for (size_t kind = 0; kind < numMemoryKinds; ++kind)
      if (peak.use[kind])
        out << "    " << std::setw(14) << grouped(peak.use[kind]) << "  "
            << memoryKindNames[kind] << "\n";
    out << "  the largest tensors\n";
    for (size_t i = 0; i < std::min(peak.tensors.size(), maxLines); ++i) {
      const LiveTensor &tensor = peak.tensors[i];
      out << "    " << std::setw(14) << grouped(tensor.bytes) << "  "
          << memoryKindNames[static_cast<size_t>(tensor.kind)] << "  "
          << tensor.name << "  " << tensor.type
          << (tensor.source.empty() ? "" : "  " + tensor.source);
      if (tensor.until != nothing && tensor.until != peak.command)
        out << "  until " << texts[tensor.until].name;
      out << "\n";
    }
    printRest(peak.tensors.size());
  }

  void printExposure(const Exposure &exposure, const CommandTexts &texts) {
    out << "  " << std::setw(10) << microsText(exposure.seconds) << "  "
        << texts[exposure.command].name << ": "
        << causeNames[static_cast<size_t>(exposure.cause)] << "\n";
    out << "      " << exposure.why << "\n";
    if (exposure.remedies.empty())
      out << "      none of the options that are tried makes the step "
             "shorter\n";
    for (const Remedy &remedy : exposure.remedies) {
      out << "      " << remedy.what << ": " << microsText(remedy.seconds)
          << " less";
      if (remedy.bytes)
        out << ", " << grouped(remedy.bytes) << " bytes more";
      if (remedy.changes)
        out << "; changes the numbers";
      out << "\n";
    }
  }

  void printUnit(const plan::ProgramT &program, const CommandTexts &texts,
                 int index) {
    Prediction now = follow(program, secondsOf(plan, program, cluster));
    std::vector<Exposure> all = exposures(plan, program, texts, cluster);
    for (uint32_t c = 0; c < program.commands.size(); ++c) {
      const auto *collective = program.commands[c]->operation.AsCollective();
      if (!collective || collective->unit != index)
        continue;
      auto exposed = std::find_if(all.begin(), all.end(), [&](auto &other) {
        return other.command == c;
      });
      out << "  " << texts[c].name << ": "
          << grouped(
                 static_cast<uint64_t>(cost::wholeBytes(program, *collective)))
          << " bytes, from " << microsText(now.begins[c]) << " to "
          << microsText(now.ends[c]);
      if (exposed != all.end())
        out << ", exposed " << microsText(exposed->seconds) << " ("
            << causeNames[static_cast<size_t>(exposed->cause)] << ")";
      out << "\n";
    }
  }

  void printRest(size_t size) {
    if (size > maxLines)
      out << "    and " << size - maxLines << " more\n";
  }

  const plan::PlanT &plan;
  const cost::Cluster &cluster;
  std::ostream &out;
};

} // namespace

void explain(const plan::PlanT &plan, const cost::Cluster &cluster,
             const std::string &what, std::ostream &out) {
  Explainer explainer(plan, cluster, out);
  if (what == "peak")
    return explainer.peak();
  if (what == "exposed")
    return explainer.exposed();
  explainer.unit(findUnit(plan, what));
}

} // namespace fsdp::trace

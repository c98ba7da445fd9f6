#include "trace/PlanDiff.h"

#include "plan/Collectives.h"
#include "plan/Names.h"
#include "plan/PipelineText.h"
#include "trace/CommandTexts.h"
#include "trace/EditScript.h"
#include "trace/MemoryByKind.h"
#include "trace/NumberText.h"
#include "trace/Predict.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace fsdp::trace {

namespace {

/// Lines that a list of commands has at most, and edits that are looked for.
constexpr size_t maxDiffLines = 40, maxEdits = 4000;

/// " (+3.1 %)", from a number that is not 0.
std::string change(double before, double after) {
  if (before == 0)
    return "";
  double percent = 100 * (after / before - 1);
  return " (" + std::string(percent < 0 ? "" : "+") + fixed(percent) + " %)";
}

std::string bytesChange(uint64_t before, uint64_t after) {
  return grouped(before) + " -> " + grouped(after) + " bytes" +
         change(before, after);
}

/// The options of a plan's pipelines: "fsdp-shard units" and "block".
std::map<std::string, std::string> optionsOf(const plan::PlanT &plan) {
  std::map<std::string, std::string> options;
  for (auto &[pipeline, name, value] : plan::pipelineOptions(plan.pipeline))
    options[pipeline + " " + name] = value;
  return options;
}

/// A state in a few words, without its place: that differs wherever another one
/// does. Flat states are others' memory.
std::map<std::string, std::string> statesOf(const plan::PlanT &plan) {
  std::map<std::string, std::string> states;
  for (const auto &state : plan.states)
    if (!state->is_flat)
      states[state->fqn] =
          std::string(plan::dtypeName(state->dtype)) + " " +
          plan::formatShape(state->shape) + " in the " +
          plan::arenaNames[state->place->arena()] + " arena" +
          (state->trainable || state->role != plan::Role::Parameter
               ? ""
               : ", frozen") +
          (state->unit >= 0 ? ", unit '" + plan.units[state->unit]->name + "'"
                            : "");
  return states;
}

/// One side of a program's comparison.
struct Side {
  Side(const PricedPlan &priced, int index)
      : plan(*priced.loaded.plan), program(*plan.programs.at(index)),
        prediction(predict(plan, index, priced.cluster)) {
    CommandTexts texts(plan, program, priced.cluster);
    for (size_t c = 0; c < texts.size(); ++c) {
      if (texts[c].category == CommandCategory::Event)
        continue;
      const plan::CommandT &command = *program.commands[c];
      labels.push_back(texts[c].name);
      if (const auto *collective = command.operation.AsCollective()) {
        // Whatever it is of.
        std::string kind = plan::infoOf(collective->kind).name;
        auto &[count, bytes] =
            collectives[kind + (collective->region
                                    ? " in " + plan::nameOf(collective->region)
                                    : "")];
        ++count;
        bytes += cost::wholeBytes(program, *collective);
      }
    }
    std::vector<MemoryUse> history =
        memoryByKind(plan, program, plan::deviceArena);
    auto most = std::max_element(history.begin(), history.end(),
                                 [](const MemoryUse &a, const MemoryUse &b) {
                                   return totalOf(a) < totalOf(b);
                                 });
    peak = *most;
    size_t at = most - history.begin();
    where = at ? texts[at - 1].name : "the start";
  }

  const plan::PlanT &plan;
  const plan::ProgramT &program;
  Prediction prediction;
  std::vector<std::string> labels; // of commands that do something
  /// By kind and region: how many, and bytes of whole buffers.
  std::map<std::string, std::pair<uint64_t, uint64_t>> collectives;
  MemoryUse peak;
  std::string where;
};

class Printer {
public:
  Printer(const PricedPlan &before, const PricedPlan &after, std::ostream &out)
      : before(before), after(after), a(*before.loaded.plan),
        b(*after.loaded.plan), out(out) {}

  void print() {
    if (before.loaded.digest == after.loaded.digest) {
      out << "the plans are the same: " << before.loaded.digest << "\n";
      return;
    }
    out << "plan " << before.loaded.digest.substr(0, 12) << " -> "
        << after.loaded.digest.substr(0, 12) << "\n";
    printHeader();
    printOptions();
    printStates();
    std::set<std::string> names;
    for (const plan::PlanT *plan : {&a, &b})
      for (const auto &program : plan->programs)
        if (names.insert(program->name).second)
          printProgram(program->name);
  }

private:
  template <typename T> void compare(const char *what, const T &x, const T &y) {
    if (x != y)
      out << what << ": " << x << " -> " << y << "\n";
  }

  static std::string meshOf(const plan::PlanT &plan) {
    std::string text;
    for (const auto &dim : plan.mesh)
      text += (text.empty() ? "" : " ") + dim->name + "=" +
              std::to_string(dim->size);
    return text.empty() ? "1 rank" : text;
  }

  void printHeader() {
    compare("source", a.source, b.source);
    compare("PyTorch", a.torch_version, b.torch_version);
    compare("mesh", meshOf(a), meshOf(b));
    compare("device", plan::nameOf(a.device), plan::nameOf(b.device));
    compare("micro-batches", a.micro_batches, b.micro_batches);
    compare("seed", a.seed, b.seed);
    for (size_t i = 0; i < std::min(a.arenas.size(), b.arenas.size()); ++i)
      if (a.arenas[i]->bytes != b.arenas[i]->bytes)
        out << a.arenas[i]->name
            << " arena: " << bytesChange(a.arenas[i]->bytes, b.arenas[i]->bytes)
            << "\n";
  }

  void printOptions() { printTable("option ", optionsOf(a), optionsOf(b)); }

  void printStates() { printTable("state ", statesOf(a), statesOf(b)); }

  /// What one table has alone, and what both have otherwise.
  void printTable(const std::string &what,
                  const std::map<std::string, std::string> &mine,
                  const std::map<std::string, std::string> &other) {
    std::vector<std::string> lines;
    for (const auto &[name, text] : mine)
      if (auto same = other.find(name); same == other.end())
        lines.push_back("- " + what + name + ": " + text);
      else if (same->second != text)
        lines.push_back(what + name + ": " + text + " -> " + same->second);
    for (const auto &[name, text] : other)
      if (!mine.count(name))
        lines.push_back("+ " + what + name + ": " + text);
    printLines(lines, "");
  }

  void printLines(const std::vector<std::string> &lines, const char *indent) {
    for (size_t i = 0; i < std::min(lines.size(), maxDiffLines); ++i)
      out << indent << lines[i] << "\n";
    if (lines.size() > maxDiffLines)
      out << indent << "... and " << lines.size() - maxDiffLines << " more\n";
  }

  void printProgram(const std::string &name) {
    int left = plan::findProgram(a, name), right = plan::findProgram(b, name);
    if (left < 0 || right < 0) {
      out << (left < 0 ? "+" : "-") << " program " << name << "\n";
      return;
    }
    out << "program " << name << "\n";
    Side x(before, left), y(after, right);
    printPrediction(x, y);
    printMemory(x, y);
    printCollectives(x, y);
    printCommands(x, y);
  }

  void printPrediction(const Side &x, const Side &y) {
    std::string on = before.cluster.name == after.cluster.name
                         ? after.cluster.name
                         : before.cluster.name + " -> " + after.cluster.name;
    auto fromTo = [](double from, double to) {
      return fixed(from * 1e6) + " -> " + microsText(to);
    };
    const Prediction &p = x.prediction, &q = y.prediction;
    out << "  predicted on " << on << ": "
        << fromTo(p.stepSeconds, q.stepSeconds)
        << change(p.stepSeconds, q.stepSeconds) << "\n";
    out << "  communication: "
        << fromTo(p.communicationSeconds, q.communicationSeconds)
        << ", of it exposed: " << fromTo(p.exposedSeconds, q.exposedSeconds)
        << "\n";
  }

  void printMemory(const Side &x, const Side &y) {
    if (x.peak == y.peak)
      return;
    out << "  most bytes in use: "
        << bytesChange(totalOf(x.peak), totalOf(y.peak));
    if (x.where != y.where)
      out << ", at " << x.where << " -> at " << y.where;
    out << "\n";
    for (size_t k = 0; k < numMemoryKinds; ++k)
      if (x.peak[k] != y.peak[k])
        out << "    " << memoryKindNames[k] << ": "
            << bytesChange(x.peak[k], y.peak[k]) << "\n";
  }

  void printCollectives(const Side &x, const Side &y) {
    auto names = x.collectives;
    names.insert(y.collectives.begin(), y.collectives.end());
    auto of = [](const Side &side, const std::string &kind) {
      auto it = side.collectives.find(kind);
      return it == side.collectives.end() ? std::pair<uint64_t, uint64_t>()
                                          : it->second;
    };
    for (const auto &[kind, ignored] : names) {
      auto [count, bytes] = of(x, kind);
      auto [newCount, newBytes] = of(y, kind);
      if (count != newCount || bytes != newBytes)
        out << "  " << kind << ": " << count << " -> " << newCount << ", "
            << bytesChange(bytes, newBytes) << "\n";
    }
  }

  void printCommands(const Side &x, const Side &y) {
    if (x.labels == y.labels)
      return;
    out << "  commands: " << x.labels.size() << " -> " << y.labels.size()
        << "\n";
    auto kept = commonSubsequence(x.labels, y.labels, maxEdits);
    if (!kept) {
      out << "    more than " << maxEdits << " differ\n";
      return;
    }
    auto removed = missing(x.labels, *kept, /*second=*/false),
         added = missing(y.labels, *kept, /*second=*/true);
    std::map<std::string, std::vector<size_t>> unmatched; // in `removed`
    for (size_t i = removed.size(); i-- > 0;)
      unmatched[removed[i].name].push_back(i);
    std::vector<std::string> lines;
    std::vector<std::pair<std::string, std::string>>
        moved; // name, and where to
    for (const Missing &now : added) {
      std::vector<size_t> &same = unmatched[now.name];
      if (same.empty()) {
        lines.push_back("+ " + now.name + now.behind());
        continue;
      }
      int64_t by =
          int64_t(now.keptBefore) - int64_t(removed[same.back()].keptBefore);
      same.pop_back();
      moved.push_back(
          {now.name,
           (by == 0 ? " changes places with its neighbour"
                    : ": " + std::to_string(std::abs(by)) +
                          (by < 0 ? " commands earlier" : " commands later")) +
               now.behind()});
    }
    for (size_t i = removed.size(); i-- > 0;) {
      std::vector<size_t> &left = unmatched[removed[i].name];
      if (std::find(left.begin(), left.end(), i) != left.end())
        lines.insert(lines.begin(),
                     "- " + removed[i].name + removed[i].behind());
    }
    for (size_t i = 0; i < moved.size();) {
      size_t like = 1; // those that went the same way together
      while (i + like < moved.size() &&
             moved[i + like].second == moved[i].second)
        ++like;
      if (like < 4)
        like = 1;
      lines.push_back(
          "~ " + moved[i].first +
          (like > 1 ? " and " + std::to_string(like - 1) + " more" : "") +
          moved[i].second);
      i += like;
    }
    printLines(lines, "    ");
  }

  /// A command of one side alone.
  struct Missing {
    std::string name;
    size_t keptBefore; // commands of both sides in front of it
    std::string after; // the last of them

    std::string behind() const {
      return after.empty() ? ", first" : ", behind " + after;
    }
  };

  static std::vector<Missing>
  missing(const std::vector<std::string> &labels,
          const std::vector<std::pair<size_t, size_t>> &kept, bool second) {
    std::vector<Missing> result;
    size_t passed = 0;
    for (size_t i = 0; i < labels.size(); ++i)
      if (passed < kept.size() &&
          (second ? kept[passed].second : kept[passed].first) == i)
        ++passed;
      else
        result.push_back({labels[i], passed,
                          passed ? labels[second ? kept[passed - 1].second
                                                 : kept[passed - 1].first]
                                 : ""});
    return result;
  }

  const PricedPlan &before, &after;
  const plan::PlanT &a, &b;
  std::ostream &out;
};

} // namespace

void printDiff(const PricedPlan &before, const PricedPlan &after,
               std::ostream &out) {
  Printer(before, after, out).print();
}

} // namespace fsdp::trace

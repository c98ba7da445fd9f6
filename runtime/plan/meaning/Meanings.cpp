#include "plan/meaning/Meanings.h"

#include "plan/GradientDivisors.h"
#include "plan/StateNames.h"
#include "plan/check/CheckerSupport.h"
#include "plan/meaning/ProgramTerms.h"
#include "plan/meaning/UpdateSkips.h"

#include <algorithm>

using namespace fsdp::plan;

namespace {

/// Follows one program, and says what becomes of gradients.
class ProgramMeaning {
public:
  ProgramMeaning(const PlanTerms &shared, const ProgramT &program,
                 uint32_t microBatches, CheckingBudget &budget)
      : shared(shared), plan(shared.plan), program(program),
        microBatches(microBatches), memory(shared, program, budget),
        isLast(program.name != accumulateProgramName),
        allDims(bitsOf(plan, {0, static_cast<uint32_t>(plan.mesh.size())})) {}

  Computations run() {
    for (size_t i = 0; i < program.commands.size(); ++i) {
      now = i;
      const CommandT &command = *program.commands[i];
      if (const UpdateT *update = command.operation.AsUpdate())
        follow(*update);
      else
        memory.follow(command);
    }
    now = -1;
    for (size_t i = 0; i < program.outputs.size(); ++i) {
      Computed &output = add(MeaningKind::Output, i);
      output.digest = (DigestOf() << program.outputs[i]->name
                                  << memory.digestOf(program.outputs[i]->value,
                                                     &output.unknown))
                          .get();
    }
    for (uint32_t state : memory.written)
      if (Role role = plan.states[state]->role;
          hasElements(state) &&
          (role == Role::Buffer || role == Role::Constant))
        buffer(state);
    return std::move(found);
  }

private:
  /// Where there are none, there is nothing to compute, and passes may leave
  /// the command out.
  bool hasElements(uint32_t state) const {
    return *numElements(plan.states[state]->shape) > 0;
  }

  Computed &add(MeaningKind kind, uint32_t index) {
    Computed &computed = found[{kind, index}];
    computed.command = now;
    return computed;
  }
  Computed &say(MeaningKind kind, uint32_t index, const Extents &extents,
                Digest digest) {
    Computed &computed = add(kind, index);
    computed.digest = digest;
    for (const Extent &extent : extents)
      if (const auto &why = memory.terms[extent.term].unknown;
          why && computed.unknown.empty())
        computed.unknown = *why;
    return computed;
  }

  /// Of a step that may be skipped: what becomes of it where that is not, and
  /// besides on which condition.
  void buffer(uint32_t state) {
    Terms &terms = memory.terms;
    Extents now = memory.resolve(state);
    std::optional<Digest> added;
    const TermInfo &choice = terms[now.front().term];
    if (now.size() == 1 && choice.kind == TermInfo::Chosen &&
        isBefore(choice.before, state) && skipped.count(choice.condition)) {
      added = terms[choice.condition].digest;
      now.front().term = choice.of;
      uint64_t bytes = now.front().bytes;
      now = Content(bytes, now).resolve(terms, 0, bytes);
    }
    Digest digest =
        (DigestOf() << shared.state(state) << digestOf(terms, now)).get();
    say(MeaningKind::Buffer, state, now, digest).added = added;
  }

  /// Whether a term is what a state had when the step began.
  bool isBefore(Term term, uint32_t state) const {
    int kept = findState(plan, keptStatePrefix + plan.states[state]->fqn);
    for (int held : {int(state), kept})
      if (held != -1 && memory.terms[term].digest == shared.leafOf(held).get())
        return true;
    return false;
  }

  void follow(const UpdateT &update) {
    const StateT &changed = *plan.states[update.parameter];
    bool accumulates = changed.role == Role::Gradient;
    Extents local = memory.rowMajor(update.gradient);
    Extents all = ofAllRanks(local, changed);
    DType dtype = program.values[update.gradient]->dtype;
    uint32_t parameter = accumulates ? changed.parameter : update.parameter;
    for (uint32_t member :
         shared.membersOf(parameter, update.begin, update.end)) {
      if (!hasElements(member))
        continue;
      const StateT &state = *plan.states[member];
      uint64_t size = dtypeBytes(dtype);
      uint64_t begin = member == parameter ? 0 : state.flat_offset * size;
      Extents own = cut(all, begin, *numElements(state.shape) * size);
      gradient(member, own, size);
      if (!accumulates)
        rule(update, member);
    }
    for (Extent &extent : local)
      extent.term =
          accumulates ? memory.terms.accumulated(extent.term, update.parameter,
                                                 changed.fqn)
                      : memory.terms.leaf(DigestOf() << std::string("updated")
                                                     << changed.fqn);
    if (update.staged != -1)
      memory.write(update.staged, local);
    else
      memory.change(update.parameter, local);
  }

  Extents unknown(const Extents &of, uint64_t ranks, const char *why) {
    uint64_t bytes = of.empty() ? 0 : of.back().end() * ranks;
    DigestOf digest;
    digest << digestOf(memory.terms, of);
    Extents extents;
    append(extents, {0, bytes, memory.terms.unknown(why, digest)});
    return extents;
  }

  /// What ranks have of a parameter's gradient, one behind the other.
  Extents ofAllRanks(const Extents &local, const StateT &parameter) {
    uint64_t ranks = parameter.shard_dim == -1 ? 1 : numShards(plan);
    uint64_t bytes = local.empty() ? 0 : local.back().end();
    Extent all = local.empty() ? Extent() : local.front();
    if (ranks > 1 && bytes) {
      if (local.size() != 1 || all.owners ||
          (all.term && all.rankStep != bytes))
        return unknown(local, ranks,
                       "it is put together of several values' parts");
      all.bytes *= ranks;
      all.rankStep = 0;
      return Content(all.bytes, {all}).resolve(memory.terms, 0, all.bytes);
    }
    return Content(bytes, local).resolve(memory.terms, 0, bytes);
  }

  /// A term without what makes the mean of it; and what that was.
  struct Mean {
    Term of;
    uint32_t dims = 0;
    double divisor = 1;
    /// Below what is added to other micro-batches.
    bool isAccumulated = false;
    uint32_t innerDims = 0;
    double innerDivisor = 1;
    bool ofOther = false; // another parameter's sum
  };

  /// Whether a term is a sum over ranks, in whichever dtype.
  bool isReduced(Term term) const {
    while (memory.terms[term].kind == TermInfo::Cast)
      term = memory.terms[term].of;
    return memory.terms[term].kind == TermInfo::Reduced;
  }

  Mean meanOf(Term term, uint32_t parameter) {
    Terms &terms = memory.terms;
    Mean mean{term};
    double of = divisorOf(parameter);
    double before = numRanks(plan) == 1 ? of : 1;
    auto reduce = [&](uint32_t dims, double divisor) {
      (mean.dims |= dims), mean.divisor *= divisor;
      if (mean.isAccumulated)
        (mean.innerDims |= dims), mean.innerDivisor *= divisor;
    };
    for (;; mean.of = terms[mean.of].of) {
      const TermInfo &info = terms[mean.of];
      if (info.kind == TermInfo::Reduced) {
        before = gradientDivisors(info.to, of).before;
        reduce(info.dims, info.divisor);
      } else if (info.kind == TermInfo::Divided && isReduced(info.of)) {
        reduce(0, info.divisor); // of one element, whose sum is no bucket
      } else if (info.kind == TermInfo::Divided && before != 1 &&
                 mean.divisor != of) {
        // In float16 some of the division comes first; one rank has no sum.
        reduce(0, info.divisor);
        before = numRanks(plan) == 1 ? before : 1;
      } else if (info.kind == TermInfo::Accumulated && !mean.isAccumulated) {
        mean.isAccumulated = true;
        int owner = plan.states[info.state]->parameter;
        mean.ofOther = owner != static_cast<int>(parameter) &&
                       owner != plan.states[parameter]->flat;
      } else if (info.kind != TermInfo::Cast) {
        return mean;
      }
    }
  }

  /// The sequential step, which has no mesh, has what the mean is of.
  double divisorOf(uint32_t parameter) const {
    int unit = plan.states[parameter]->unit;
    return unit == -1 || plan.mesh.empty() ? 1 : gradientDivisor(plan, unit);
  }

  /// What its unit says that its gradient is divided by; 0: nothing.
  double ownDivisorOf(uint32_t parameter) const {
    int unit = plan.states[parameter]->unit;
    return unit == -1 ? 0 : plan.units[unit]->gradient_divisor.value_or(0);
  }

  void gradient(uint32_t parameter, const Extents &own, uint64_t size) {
    DigestOf digest;
    Extents parts;
    std::optional<Mean> first;
    bool isMean = true;
    uint32_t dims = plan.states[parameter]->unit == -1 ? 0 : allDims;
    for (Extent part : own) {
      Mean mean = meanOf(part.term, parameter);
      part.term = mean.of;
      part.begin /= size;
      part.bytes /= size;
      part.offset /= size;
      append(parts, part);
      isMean &= !mean.ofOther &&
                (!isLast ||
                 (mean.dims == dims && mean.divisor == divisorOf(parameter) &&
                  mean.isAccumulated == (plan.micro_batches > 1)));
      if (!first)
        first = mean;
      isMean &= first->dims == mean.dims && first->divisor == mean.divisor &&
                first->innerDims == mean.innerDims &&
                first->innerDivisor == mean.innerDivisor;
    }
    digest << digestOf(memory.terms, parts) << uint64_t(isMean)
           << uint64_t(microBatches) << ownDivisorOf(parameter);
    Computed &said = say(MeaningKind::Gradient, parameter, parts, digest.get());
    if (first && isLast && first->isAccumulated) {
      said.dims = first->innerDims;
      said.divisor = first->innerDivisor;
    } else if (first && !isLast) {
      said.dims = first->dims;
      said.divisor = first->divisor;
    }
  }

  /// Adds to an update's digest on which captured truth value it is left out.
  void addSkip(DigestOf &digest, int number, std::string &unknown) {
    std::optional<Term> term = memory.termOf(number);
    auto skip = term ? skipOf(memory.terms, *term) : std::nullopt;
    if (!skip) {
      unknown = "it is skipped on a number that is no truth value's";
      return;
    }
    if (skip->overflow)
      skipped.insert(*skip->overflow);
    if (!skip->captured)
      return;
    bool isOfAll = skip->dims == allDims &&
                   skip->isAccumulated == (plan.micro_batches > 1);
    digest << memory.terms[*skip->captured].digest << uint64_t(skip->isNot)
           << uint64_t(skip->isWhereAll && isOfAll);
    if (memory.terms[*skip->captured].unknown)
      unknown = *memory.terms[*skip->captured].unknown;
  }

  void rule(const UpdateT &update, uint32_t parameter) {
    DigestOf digest;
    digest << shared.rule(update.rule) << shared.state(parameter);
    for (uint32_t s : update.states) {
      int state = shared.memberOf(s, parameter);
      digest << (state == -1 ? Digest() : shared.state(state));
    }
    std::string unknown;
    if (update.skip != -1)
      addSkip(digest, update.skip, unknown);
    Computed &said = say(MeaningKind::Update, parameter, {}, digest.get());
    said.unknown = unknown;
    // What the sequential step does not have: held to the plan's own.
    DigestOf added;
    for (int number : {update.scale, update.skip})
      number == -1 ? added << uint64_t(0) : added << memory.digestOf(number);
    for (int value : update.given)
      added << memory.digestOf(value);
    if (update.scale != -1 || update.skip != -1 || !update.given.empty())
      said.added = added.get();
    if (!update.given.empty())
      said.unknown = "it is of whole matrices";
  }

  const PlanTerms &shared;
  const PlanT &plan;
  const ProgramT &program;
  uint32_t microBatches; // of a step
  ProgramTerms memory;
  bool isLast;
  uint32_t allDims = 0;
  int now = -1;
  std::set<Term> skipped; // on which truth values the whole step is skipped
  Computations found;
};

} // namespace

Digest fsdp::plan::heldTo(const Computed &computed) {
  return computed.added
             ? (DigestOf() << computed.digest << *computed.added).get()
             : computed.digest;
}

std::vector<Computations> fsdp::plan::computationsOf(const PlanT &plan,
                                                     uint32_t microBatches) {
  PlanTerms shared(plan);
  CheckingBudget budget(plan);
  std::vector<Computations> all;
  for (const auto &program : plan.programs)
    all.push_back(ProgramMeaning(shared, *program, microBatches, budget).run());
  return all;
}

std::string fsdp::plan::describe(const PlanT &plan, const ProgramT &program,
                                 MeaningKind kind, uint32_t index) {
  std::string name = "'" +
                     (kind == MeaningKind::Output ? program.outputs[index]->name
                                                  : plan.states[index]->fqn) +
                     "'";
  switch (kind) {
  case MeaningKind::Output:
    return "output " + name;
  case MeaningKind::Buffer:
    return "buffer " + name;
  case MeaningKind::Gradient:
    return "the gradient of " + name;
  default:
    return "the update of " + name;
  }
}

void fsdp::plan::settleMeanings(PlanT &plan,
                                const std::vector<Computations> &said) {
  for (const auto &program : plan.programs)
    program->meanings.clear();
  if (std::all_of(said.begin(), said.end(),
                  [](const Computations &of) { return of.empty(); }))
    return; // made of IR that was never a captured step
  std::vector<Computations> found = computationsOf(plan, plan.micro_batches);
  for (size_t p = 0; p < plan.programs.size(); ++p) {
    const ProgramT &program = *plan.programs[p];
    auto &meanings = plan.programs[p]->meanings;
    // Only the last micro-batch updates.
    for (const auto &[key, computed] : said[p])
      Checked(plan)
          .at(PlanEntry::Program, p)
          .require(C34,
                   found[p].count(key) ||
                       (key.first == MeaningKind::Update &&
                        program.name == accumulateProgramName),
                   "does not compute ",
                   describe(plan, program, key.first, key.second),
                   ", which the sequential step does");
    for (const auto &[key, computed] : found[p]) {
      auto meaning = std::make_unique<MeaningT>();
      meaning->kind = key.first;
      meaning->index = key.second;
      Digest digest = heldTo(computed);
      meaning->high = digest.high;
      meaning->low = digest.low;
      auto it = said[p].find(key);
      if (it == said[p].end()) {
        meaning->uncovered = "the sequential step has no such thing";
      } else if (!computed.unknown.empty()) {
        meaning->uncovered = computed.unknown;
      } else if (it->second.digest != computed.digest) {
        Checked in = Checked(plan).at(PlanEntry::Program, p);
        Checked here = computed.command == -1
                           ? in
                           : in.at(PlanEntry::Command, computed.command);
        // Of a gradient a pass may give another form that no rule knows.
        bool mayDiffer = key.first == MeaningKind::Gradient ||
                         plan.device != DeviceKind::Cpu;
        here.require(C34, mayDiffer,
                     describe(plan, program, key.first, key.second),
                     " is not what the sequential step computes");
        meaning->uncovered = "its term is not the sequential step's";
      }
      meanings.push_back(std::move(meaning));
    }
  }
}

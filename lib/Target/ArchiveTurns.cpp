// Checks the turns of a step.

#include "ArchiveTurns.h"
#include "plan/ProgramNames.h"

#include <algorithm>
#include <set>

using namespace fsdp;

std::vector<std::string> fsdp::programsOfStep(const ArchiveMetadata &metadata) {
  std::vector<std::string> names;
  // A line that returns to itself ends there.
  for (std::string name = plan::stepProgramName;
       metadata.programs.count(name) &&
       std::find(names.begin(), names.end(), name) == names.end();
       name = metadata.programs.at(name).next)
    names.push_back(name);
  return names;
}

[[noreturn]] static void fail(const std::string &program,
                              const std::string &what) {
  throw ArchiveError(E::ArchiveContents, "has a bad fsdp.json: program " +
                                             program + " " + what +
                                             "; export again");
}

/// Whether the turn of a variant is that of its program, and goes on with a
/// variant of what that one goes on with.
static bool isTurnOf(const ProgramInfo &variant, const ProgramInfo &first,
                     const ArchiveMetadata &metadata) {
  if (variant.turn != first.turn || variant.next.empty() != first.next.empty())
    return false;
  return variant.next.empty() ||
         metadata.programs.at(variant.next).variantOf == first.next;
}

/// Turns that follow each other.
static void checkLine(const std::vector<std::string> &line,
                      const ArchiveMetadata &metadata) {
  std::set<std::string> turns, trained;
  for (const std::string &name : line) {
    const ProgramInfo &program = metadata.programs.at(name);
    if (!turns.insert(program.turn).second || program.turn.empty())
      fail(name,
           "is one of several turns, and has no name of its own as `turn`");
    for (const ResultInfo &result : program.results)
      if (result.role == ResultRole::Gradient &&
          !trained.insert(result.fqn).second)
        fail(name, "trains " + result.fqn + ", as an earlier turn does");
  }
  if (const std::string &next = metadata.programs.at(line.back()).next;
      !next.empty())
    fail(line.back(), "returns to the turn of " + next);
  if (metadata.accumulate > 1)
    fail(line.front(), "has several turns, and a step several micro-batches");
  if (metadata.scaler)
    fail(line.front(), "has several turns, and the step has a scaler");
}

void fsdp::checkTurns(const ArchiveMetadata &metadata) {
  for (const auto &[name, program] : metadata.programs)
    if (!program.next.empty() && !metadata.programs.count(program.next))
      fail(name, "goes on with " + program.next + ", which is not there");
  std::vector<std::string> line = programsOfStep(metadata);
  for (const auto &[name, program] : metadata.programs) {
    if (!program.variantOf.empty()) {
      if (!isTurnOf(program, metadata.programs.at(program.variantOf), metadata))
        fail(name, "has other turns than " + program.variantOf);
      continue;
    }
    bool isOfStep = std::find(line.begin(), line.end(), name) != line.end();
    if (name != plan::evalProgramName && !isOfStep)
      fail(name, "is neither step nor eval, nor a variant or a turn of these");
    if (name == plan::evalProgramName &&
        (isOfStep || !program.turn.empty() || !program.next.empty()))
      fail(name, "has turns, which evaluations have not");
  }
  if (line.size() > 1 || !metadata.programs.at(line.back()).next.empty())
    checkLine(line, metadata);
}

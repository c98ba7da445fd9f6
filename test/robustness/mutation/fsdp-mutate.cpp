// fsdp-mutate [--per-class N] [--seed S] PLAN...
// fsdp-mutate --write FILE CLASS PLAN
//
// Breaks plans and asks the checker, as a reader of the file would. Prints a
// line of JSON per class: mutants, refused, how many by which constraint, those
// that compute the same as the plan in every order that streams can run (they
// are no mutants), and the survivors. With --write it writes a mutant of the
// class that the checker refuses, with the digest of what is in it.
#include "EndProgram.h"
#include "Meaning.h"
#include "Mutations.h"
#include "ProgramEnd.h"
#include "operators/DispatcherSchemas.h"
#include "plan/PlanFile.h"

#include <cstring>
#include <iostream>
#include <map>

using namespace fsdp::plan;
using namespace fsdp::test;

namespace {

struct Tally {
  unsigned mutants = 0, refused = 0, same = 0;
  std::map<std::string, unsigned> constraints; // "C9"
  std::vector<std::string> survivors;
};

std::string refusal(const std::string &serialized) {
  try {
    parsePlan(serialized, "mutant", fsdp::findDispatcherSchema);
    return "";
  } catch (const PlanError &error) {
    return error.what();
  }
}

/// "C9": what stands in front of the finding; empty where the file itself is
/// refused.
std::string constraintOf(const std::string &why) {
  const std::string before = "is not a valid plan: ";
  size_t at = why.find(before);
  return at == std::string::npos
             ? ""
             : why.substr(at + before.size(),
                          why.find(':', at + before.size()) - at -
                              before.size());
}

void mutate(const std::string &path, unsigned perClass, uint64_t seed,
            bool verbose, std::map<std::string, Tally> &tallies) {
  const PlanT plan = *readPlan(path, fsdp::findDispatcherSchema).plan;
  const std::string original = serializePlan(plan);
  const uint64_t meaning = meaningOf(plan);
  if (!isOrdered(plan))
    throw PlanError(fsdp::E::PlanConstraint,
                    "'" + path + "' has a race that the checker does not see");
  for (const Mutation &mutation : allMutations()) {
    Tally &tally = tallies[mutation.name];
    Random random(seed ^ std::hash<std::string>()(mutation.name));
    for (unsigned i = 0; i < perClass; ++i) {
      PlanT mutant = plan;
      auto said = mutation.apply(mutant, random);
      if (!said)
        continue;
      const std::string serialized = serializePlan(mutant);
      if (serialized == original)
        continue;
      std::string why = refusal(serialized);
      if (verbose)
        std::cerr << mutation.name << ": " << *said << ": " << why << "\n";
      if (why.empty() && meaningOf(mutant) == meaning && isOrdered(mutant)) {
        ++tally.same;
        continue;
      }
      ++tally.mutants;
      tally.refused += !why.empty();
      if (std::string number = constraintOf(why); !number.empty())
        ++tally.constraints[number];
      if (why.empty())
        tally.survivors.push_back(path + ": " + *said);
    }
  }
}

void writeMutant(const std::string &to, const std::string &name,
                 const std::string &from) {
  const PlanT plan = *readPlan(from, fsdp::findDispatcherSchema).plan;
  Random random;
  for (const Mutation &mutation : allMutations()) {
    PlanT mutant = plan;
    if (mutation.name == name && mutation.apply(mutant, random) &&
        !refusal(serializePlan(mutant)).empty())
      return writePlan(mutant, to);
  }
  throw PlanError(fsdp::E::PlanConstraint,
                  "no mutant of '" + from + "' is refused");
}

} // namespace

int main(int argc, char **argv) {
  unsigned perClass = 4;
  uint64_t seed = 0;
  bool verbose = false;
  std::map<std::string, Tally> tallies;
  try {
    if (argc < 2)
      throw fsdp::Error(fsdp::E::Flag, "there is no plan; name one or more");
    for (int i = 1; i < argc; ++i) {
      if (!std::strcmp(argv[i], "--per-class") && i + 1 < argc)
        perClass = parseNumber("--per-class", argv[++i], 1);
      else if (!std::strcmp(argv[i], "--seed") && i + 1 < argc)
        seed = parseNumber("--seed", argv[++i], 0);
      else if (!std::strcmp(argv[i], "--verbose"))
        verbose = true;
      else if (!std::strcmp(argv[i], "--write") && i + 3 < argc)
        writeMutant(argv[i + 1], argv[i + 2], argv[i + 3]), i += 3;
      else if (argv[i][0] == '-')
        throw fsdp::Error(fsdp::E::Flag, std::string("there is no flag ") +
                                             argv[i] +
                                             ", or it lacks what it takes");
      else
        mutate(argv[i], perClass, seed + i, verbose, tallies);
    }
  } catch (const std::exception &error) {
    return endWith(error);
  }
  for (const auto &[name, tally] : tallies) {
    std::cout << "{\"class\": \"" << name
              << "\", \"mutants\": " << tally.mutants
              << ", \"refused\": " << tally.refused
              << ", \"same\": " << tally.same << ", \"constraints\": {";
    const char *comma = "";
    for (const auto &[number, count] : tally.constraints) {
      std::cout << comma << "\"" << number << "\": " << count;
      comma = ", ";
    }
    std::cout << "}, \"survivors\": [";
    for (size_t i = 0; i < tally.survivors.size(); ++i)
      std::cout << (i ? ", " : "") << "\"" << tally.survivors[i] << "\"";
    std::cout << "]}\n";
  }
  fsdp::endPrinted(0);
}

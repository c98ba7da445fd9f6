// fsdp-simulate PLAN --weights FILE [--data FILE] [--steps N] [--seeds 0:100]
// fsdp-simulate ... --class NAME [--mutants N]
//
// Runs all ranks of a plan in one process, in an order that each seed chooses,
// and compares with an ordinary run. Prints a line of JSON: how many seeds had
// the same bits, in how many a rank was made to fail and the others said so,
// and those that end otherwise, which is an error.
//
// With --class it breaks the plan as fsdp-mutate does, takes mutants that the
// checker refuses, and runs those: how many show a difference in some seed.
#include "EndProgram.h"
#include "Mutations.h"
#include "ProgramEnd.h"
#include "Simulation.h"
#include "operators/DispatcherSchemas.h"
#include "plan/PlanFile.h"

#include <ATen/Parallel.h>
#include <CLI/CLI.hpp>
#include <iostream>
#include <nlohmann/json.hpp>

using namespace fsdp;
using namespace fsdp::test;

namespace {

struct Seeds {
  uint64_t begin = 0, end = 100;
};

Seeds parseSeeds(const std::string &text) {
  size_t colon = text.find(':');
  uint64_t begin = parseNumber("--seeds", text.substr(0, colon), 0);
  return {begin, colon == std::string::npos
                     ? begin + 1
                     : parseNumber("--seeds", text.substr(colon + 1), begin)};
}

int runSeeds(const Simulation &simulation, const plan::PlanT &plan,
             Seeds seeds) {
  uint64_t same = 0, reported = 0;
  auto wrong = nlohmann::json::array();
  for (uint64_t seed = seeds.begin; seed < seeds.end; ++seed) {
    Finding finding = simulation.run(plan, seed);
    same += finding.verdict == Verdict::Same;
    reported += finding.verdict == Verdict::Reported;
    if (finding.verdict == Verdict::Differs ||
        finding.verdict == Verdict::Fails)
      wrong.push_back({{"seed", seed}, {"text", finding.text}});
  }
  std::cout << nlohmann::json{{"same", same},
                              {"reported", reported},
                              {"finite", simulation.isFinite()},
                              {"wrong", wrong}}
            << "\n";
  return wrong.empty() ? 0 : 1;
}

Mutation findMutation(const std::string &name) {
  for (const Mutation &mutation : allMutations())
    if (mutation.name == name)
      return mutation;
  throw Error(E::Flag, "there is no class '" + name + "' of mutants");
}

/// What the checker says; empty: it accepts.
std::string refusal(const plan::PlanT &plan) {
  try {
    plan::parsePlan(plan::serializePlan(plan), "mutant", findDispatcherSchema);
    return "";
  } catch (const plan::PlanError &error) {
    return error.what();
  }
}

void runMutants(const Simulation &simulation, const plan::PlanT &plan,
                const std::string &name, unsigned wanted, Seeds seeds) {
  const Mutation &mutation = findMutation(name);
  Random random(seeds.begin);
  unsigned mutants = 0, found = 0;
  auto missed = nlohmann::json::array();
  for (unsigned tries = 0; mutants < wanted && tries < 20 * wanted; ++tries) {
    plan::PlanT mutant = plan;
    auto said = mutation.apply(mutant, random);
    std::string why = said ? refusal(mutant) : "";
    if (why.empty())
      continue;
    ++mutants;
    bool shows = false;
    for (uint64_t seed = seeds.begin; seed < seeds.end && !shows; ++seed) {
      Verdict verdict = simulation.run(mutant, seed).verdict;
      shows = verdict == Verdict::Differs || verdict == Verdict::Fails;
    }
    found += shows;
    if (!shows)
      missed.push_back(*said + ": " + why);
  }
  std::cout << nlohmann::json{{"class", name},
                              {"mutants", mutants},
                              {"found", found},
                              {"missed", missed}}
            << "\n";
}

} // namespace

int main(int argc, char **argv) {
  std::string path, seeds = "0:100", steps = "2", mutants = "4", mutation;
  Inputs inputs;
  CLI::App app("Runs a plan's ranks in orders that seeds choose.");
  app.add_option("plan", path)->required();
  app.add_option("--weights", inputs.weights);
  app.add_option("--data", inputs.data);
  app.add_option("--steps", steps);
  app.add_option("--seeds", seeds);
  app.add_option("--class", mutation);
  app.add_option("--mutants", mutants);
  try {
    app.parse(argc, argv);
    inputs.steps = parseNumber("--steps", steps, 1);
    const Seeds tried = parseSeeds(seeds);
    at::set_num_threads(1);
    plan::LoadedPlan loaded = plan::readPlan(path, findDispatcherSchema);
    Simulation simulation(*loaded.plan, inputs);
    if (mutation.empty())
      endPrinted(runSeeds(simulation, *loaded.plan, tried));
    runMutants(simulation, *loaded.plan, mutation,
               parseNumber("--mutants", mutants, 1), tried);
  } catch (const CLI::Success &help) {
    app.exit(help);
    endPrinted(0);
  } catch (const CLI::ParseError &mistake) {
    return endWith(Error(E::Flag, mistake.what()));
  } catch (const std::exception &error) {
    return endWith(error);
  }
  endPrinted(0);
}

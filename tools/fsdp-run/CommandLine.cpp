#include "CommandLine.h"
#include "FlagValidators.h"
#include "Flags.h"
#include "HelpScreen.h"

#include "Error.h"
#include "device/Device.h"
#include "plan/NearestName.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <cstdio>

namespace fsdp {

/// Flags with which nothing is trained.
static void addOtherFlags(CLI::App &app, CLI::Option &plan, CommandLine &result,
                          std::string &explained) {
  auto *doctor =
      app.add_flag(
             "--doctor", result.doctor,
             "look at a run's hosts, try its collectives, name what is wrong")
          ->group(heading::instead)
          ->excludes(&plan);
  app.add_flag("--json", result.doctorJson, "what --doctor finds, as JSON")
      ->group(heading::instead)
      ->needs(doctor);
  app.add_option("--tune", result.tune,
                 "measure the plan's matrix products and attention on this "
                 "machine, one rank's threads, into a table for fsdp-opt's "
                 "kernel-table (docs/kernels.md); products that it has are not "
                 "measured again")
      ->group(heading::instead)
      ->check(notEmpty())
      ->type_name("FILE");
  app.add_option("--explain", explained,
                 "print what an error's identifier means, as in FSDP-E0101")
      ->group(heading::instead)
      ->check(notEmpty())
      ->excludes(&plan)
      ->type_name("ID");
  app.set_version_flag(
         "--version",
         [] {
           return std::string("fsdp-run ") + FSDP_VERSION + ", PyTorch " +
                  FSDP_TORCH + " with its Gloo, " + describeCuda();
         },
         "of this program, PyTorch, CUDA and NCCL")
      ->group(heading::instead);
}

/// For the driver, which has these flags looked at before there is a plan.
static void addCheckFlags(CLI::App &app, CommandLine &result) {
  app.add_flag("--check-flags", result.checksFlags)->group("");
  app.add_option_function<std::string>("--check-flags-for",
                                       [&result](const std::string &device) {
                                         result.checksFlags = true;
                                         result.device = device;
                                       })
      ->group("");
}

static Error errorOf(const CLI::ParseError &mistake, const CLI::App &app) {
  if (dynamic_cast<const CLI::ExtrasError *>(&mistake)) {
    std::string first = app.remaining().at(0);
    return Error(E::Flag,
                 first.compare(0, 1, "-") == 0
                     ? "there is no flag " + first +
                           nearestHint(first.substr(0, first.find('=')),
                                       flagNames(app)) +
                           "; see fsdp-run --help-all"
                     : "'" + first +
                           "' stands behind the plan, of which there is one; "
                           "see fsdp-run --help");
  }
  std::string text = mistake.what();
  if (!text.empty())
    text[0] = static_cast<char>(std::tolower(text[0]));
  // As the library says it, of a flag that is given twice.
  const std::string twice = ": At Most 1 required but received";
  if (size_t at = text.find(twice); at != std::string::npos)
    text = text.substr(0, at) + " is given more than once";
  bool disagrees = dynamic_cast<const CLI::ExcludesError *>(&mistake) ||
                   dynamic_cast<const CLI::RequiresError *>(&mistake);
  return Error(disagrees ? E::FlagsDisagree : E::Flag,
               text + "; see fsdp-run --help");
}

std::optional<int> parseCommandLine(int argc, char **argv,
                                    CommandLine &result) {
  CLI::App app{"Trains a compiled plan on one or more ranks: fsdp-run PLAN "
               "[FLAG...]\n\n"
               "  fsdp-run step.plan --nproc 2 --weights step.safetensors "
               "--data step.data.safetensors\n"
               "  torchrun --no-python --standalone --nproc-per-node 2 "
               "fsdp-run step.plan ...\n"
               "  fsdp-run --doctor --nproc 2\n",
               "fsdp-run"};
  auto *plan = app.add_option("plan", result.plan)->type_name("PLAN");
  addRunFlags(app, result.run);
  addLaunchFlags(app, result.launch);
  std::string explained;
  addOtherFlags(app, *plan, result, explained);
  bool lists = false;
  // For programs that start this one.
  app.add_flag("--list-flags", lists)->group("");
  addCheckFlags(app, result);
  setHelpScreens(app);
  try {
    app.parse(argc, argv);
    if (lists) {
      std::fputs(listFlags(app).c_str(), stdout);
      return 0;
    }
    if (!explained.empty()) {
      std::fputs(explainError(explained).c_str(), stdout);
      return 0;
    }
    if (!result.doctor && result.plan.empty())
      throw CLI::RequiredError("plan");
    if (result.checksFlags && !result.tune.empty())
      throw CLI::ValidationError("--tune", "takes the place of a run");
    checkRunFlags(result.run, result.plan);
  } catch (const CLI::Success &done) {
    return app.exit(done);
  } catch (const CLI::ParseError &mistake) {
    throw errorOf(mistake, app);
  }
  return std::nullopt;
}

std::optional<CommandLine> parseMeeting(int argc, char **argv) {
  CLI::App app;
  app.allow_extras();
  CommandLine result;
  addLaunchFlags(app, result.launch);
  app.add_flag("--doctor", result.doctor);
  addCheckFlags(app, result);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Error &) {
    return std::nullopt;
  }
  return result;
}

} // namespace fsdp

// What a rank does: files, training, logging, checkpoints, traces.

#include "FlagValidators.h"
#include "Flags.h"

#include <charconv>
#include <filesystem>

namespace fsdp {

static void addInputFlags(CLI::App &app, RunOptions &run) {
  app.add_option("--weights", run.weights,
                 "parameters, buffers and repeated inputs: a safetensors "
                 "file, an index of several, or a folder of them; each rank "
                 "reads its part")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::reads);
  app.add_flag("--weights-from-rank0", run.weightsFromRank0,
               "rank 0 alone reads --weights, and sends each rank its part")
      ->group(heading::reads);
  app.add_option("--data", run.data,
                 "training samples: a safetensors file, a folder of them, or a "
                 "description of files (docs/data.md)")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::reads);
  app.add_option("--data-command", run.dataCommand,
                 "a command that feeds each rank with batches in place of "
                 "--data (docs/data.md)")
      ->type_name("COMMAND")
      ->group(heading::reads)
      ->excludes("--data");
  app.add_option("--data-timeout", run.dataSeconds,
                 "seconds to wait for a batch of such a command (default: "
                 "1800)")
      ->check(secondsAboveZero())
      ->type_name("S")
      ->group(heading::reads);
  app.add_option("--eval-data", run.evalData,
                 "samples for the plan's evaluation")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::reads);
  app.add_option("--eval-data-command", run.evalDataCommand,
                 "as --data-command, in place of --eval-data")
      ->type_name("COMMAND")
      ->group(heading::reads)
      ->excludes("--eval-data");
}

static void addOutputFlags(CLI::App &app, RunOptions &run) {
  app.add_option("--save", run.save,
                 "write the trained weights under their state_dict() names")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::writes);
  app.add_option("--metrics", run.metrics,
                 "write a JSON line per logged step (docs/metrics.md)")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::writes);
  app.add_option("--tensorboard", run.tensorboard,
                 "write the same as event files into this folder")
      ->check(notEmpty())
      ->type_name("DIR")
      ->group(heading::writes);
  app.add_option("--eval-outputs", run.evalOutputs,
                 "write what the evaluation gives for each sample "
                 "(docs/data.md), a row for each, as safetensors")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::writes);
  app.add_option("--summary", run.summary,
                 "write counts, bytes and memory of the run as JSON")
      ->check(notEmpty())
      ->type_name("FILE")
      ->group(heading::writes);

  app.add_option("--flight-record", run.flightRecord,
                 "where each rank says how far it was when another one failed "
                 "or did not come (default: the folder of checkpoints, else of "
                 "--summary or --metrics)")
      ->type_name("DIR")
      ->group(heading::writes);
}

static void addTrainingFlags(CLI::App &app, RunOptions &run) {
  auto *steps = app.add_option("--steps", run.steps,
                               "length of the run (default: the plan's)")
                    ->check(wholeNumber(0, mostSteps))
                    ->type_name("N")
                    ->group(heading::trains);
  app.add_option("--epochs", run.epochs, "length of the run, in epochs")
      ->check(wholeNumber(0, mostEpochs))
      ->type_name("N")
      ->group(heading::trains)
      ->excludes(steps);
  app.add_option("--seed", run.seed,
                 "of shuffling and random operators (default: the plan's)")
      ->check(wholeNumber(INT64_MIN, INT64_MAX))
      ->type_name("N")
      ->group(heading::trains);
  app.add_flag("!--no-shuffle", run.shuffle, "read samples in stored order")
      ->group(heading::trains);
  app.add_option("--eval-interval", run.evalInterval,
                 "evaluate every N steps, not at each epoch's end")
      ->check(wholeNumber(0, mostSteps))
      ->type_name("N")
      ->group(heading::trains);
  app.add_option_function<std::string>(
         "--rng",
         [&run](const std::string &kind) {
           run.sequentialRandom = kind == "sequential";
         },
         "site: a stream per random operator; sequential: one stream in "
         "program order, as eager PyTorch (default: site)")
      ->check(CLI::IsMember({"site", "sequential"}))
      ->type_name("KIND")
      ->group(heading::trains);

  std::map<std::string, NonFinite> nonFinite;
  for (const NonFiniteInfo &info : nonFiniteKinds)
    nonFinite[info.name] = info.kind;
  app.add_option_function<std::string>(
         "--non-finite",
         [&run, nonFinite](const std::string &kind) {
           run.nonFinite = nonFinite.at(kind);
         },
         "what to do about a step whose loss, or a gradient, is infinite or "
         "NaN: continue, stop (with a checkpoint) or skip its update (default: "
         "as the plan was compiled, continue without non-finite=skip)")
      ->check(CLI::IsMember(nonFinite))
      ->type_name("KIND")
      ->group(heading::trains);

  app.add_flag("--poison", run.poison,
               "fill what is not alive with NaN and guard the ends of ranges")
      ->group(heading::trains);
  app.add_flag("--cuda-graph", run.graph,
               "launch a step as one CUDA graph, once its first runs are over")
      ->group(heading::trains);
}

static void addLoggingFlags(CLI::App &app, RunOptions &run) {
  app.add_option("--log-interval", run.logInterval,
                 "log every N steps (default: 1), and off a terminal print "
                 "each of them")
      ->check(wholeNumber(1, mostSteps))
      ->type_name("N")
      ->group(heading::says);
  app.add_flag("--log-grad-norm", run.logGradientNorm,
               "log the norm of all gradients")
      ->group(heading::says);
  app.add_flag("--log-units", run.logUnits,
               "log each unit's gradient norm, bytes of collectives, and the "
               "time in which they kept computing from going on")
      ->group(heading::says);
  app.add_option("--peak-flops", run.peakFlops,
                 "operations per second that one rank could do, for the metric "
                 "hfu (default: of the cluster that the plan was compiled for)")
      ->check(aboveZero("number of operations per second", mostFlops))
      ->type_name("F")
      ->group(heading::says);
  static const std::map<std::string, ProgressKind> kinds = {
      {"auto", ProgressKind::Auto},
      {"bar", ProgressKind::Bar},
      {"lines", ProgressKind::Lines},
      {"notes", ProgressKind::Notes},
      {"none", ProgressKind::None}};
  auto *progress =
      app.add_option_function<std::string>(
             "--progress",
             [&run](const std::string &kind) { run.progress = kinds.at(kind); },
             "auto, bar, lines, notes or none (default: a bar on a terminal)")
          ->check(CLI::IsMember(kinds))
          ->type_name("KIND")
          ->group(heading::says);
  app.add_option_function<std::string>(
         "--log-format",
         [&run](const std::string &format) {
           if (format == "json")
             run.progress = ProgressKind::Json;
         },
         "text, or json: an object per line (docs/metrics.md) (default: text)")
      ->check(CLI::IsMember({"text", "json"}))
      ->excludes(progress)
      ->type_name("FORMAT")
      ->group(heading::says);
}

static void addCheckpointFlags(CLI::App &app, CheckpointOptions &options) {
  auto *folder =
      app.add_option("--checkpoint-dir", options.folder,
                     "write checkpoints into this folder, which all hosts "
                     "share; one at the end, and when a signal ends the run")
          ->check(notEmpty())
          ->type_name("DIR")
          ->group(heading::checkpoints);
  auto add = [&](const char *name, auto &value, const char *type,
                 const char *text) {
    return app.add_option(name, value, text)
        ->type_name(type)
        ->group(heading::checkpoints)
        ->needs(folder);
  };
  add("--checkpoint-interval", options.interval, "N", "write one every N steps")
      ->check(wholeNumber(1, mostSteps));
  add("--checkpoint-seconds", options.seconds, "S", "write one every S seconds")
      ->check(secondsAboveZero());
  add("--keep", options.keep, "N",
      "keep the newest N, 0: all of them (default: 3)")
      ->check(wholeNumber(0, mostSteps));
  add("--keep-best", options.keepBest, "METRIC",
      "keep the one with the least METRIC too, as in eval_loss")
      ->check(notEmpty());
  app.add_flag("--checkpoint-sync", options.synchronous,
               "wait until each is written, not only copied")
      ->group(heading::checkpoints)
      ->needs(folder);
  app.add_flag("--checkpoint-must-succeed", options.mustSucceed,
               "end the run where one cannot be written")
      ->group(heading::checkpoints)
      ->needs(folder);
  app.add_option("--resume", options.resume,
                 "go on from this checkpoint, or the newest whole one of this "
                 "folder; auto: of --checkpoint-dir, if any. --steps, "
                 "--epochs: the whole run's")
      ->check(notEmpty())
      ->type_name("auto|PATH")
      ->group(heading::checkpoints);
}

/// Whether two paths are one file, perhaps by two names of it, which need not
/// be there yet. Devices are nobody's file: several flags may name /dev/null.
static bool isOneFile(const std::string &one, const std::string &other) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (one.empty() || other.empty() ||
      (fs::exists(one, ignored) && !fs::is_regular_file(one, ignored)))
    return false;
  return fs::equivalent(one, other, ignored) ||
         fs::weakly_canonical(fs::absolute(one), ignored) ==
             fs::weakly_canonical(fs::absolute(other), ignored);
}

/// Throws Error where a file would be written that another flag reads or
/// writes. Weights alone may be saved where they were read.
static void checkFiles(const RunOptions &run, const std::string &plan) {
  using Named = std::pair<const char *, std::string>;
  const Named read[] = {{"the plan", plan},
                        {"--weights", run.weights},
                        {"--data", run.data},
                        {"--eval-data", run.evalData}};
  const Named written[] = {{"--save", run.save},
                           {"--metrics", run.metrics},
                           {"--trace", run.trace},
                           {"--summary", run.summary},
                           {"--eval-outputs", run.evalOutputs}};
  for (const auto &[flag, file] : written) {
    for (const auto &[other, input] : read)
      if (isOneFile(file, input) && (file != run.save || input != run.weights))
        throw Error(E::FlagsDisagree, std::string(flag) + " " + file +
                                          " would write over " + other +
                                          "; name another file");
    for (const auto &[other, output] : written)
      if (std::string(other) != flag && isOneFile(file, output))
        throw Error(E::FlagsDisagree, std::string(flag) + " and " + other +
                                          " both write " + file +
                                          "; name another file");
  }
}

/// What no flag alone can be blamed for.
void checkRunFlags(const RunOptions &run, const std::string &plan) {
  checkFiles(run, plan);
  const CheckpointOptions &options = run.checkpoints;
  if (options.resume == "auto" && options.folder.empty())
    throw CLI::ValidationError("--resume auto",
                               "needs --checkpoint-dir, where checkpoints are");
  if (run.sequentialRandom &&
      (!options.folder.empty() || !options.resume.empty()))
    throw CLI::ValidationError(
        "--rng sequential",
        "is one stream of numbers from the first step on, "
        "and a run that resumes has no part of it; drop it");
}

/// "3:5", or "3" for one step.
static TracedSteps parseSteps(const std::string &text) {
  TracedSteps steps{};
  const char *end = text.data() + text.size();
  auto read = std::from_chars(text.data(), end, steps.first);
  steps.last = steps.first;
  if (read.ec == std::errc() && read.ptr != end && *read.ptr == ':')
    read = std::from_chars(read.ptr + 1, end, steps.last);
  if (read.ec == std::errc::result_out_of_range)
    throw CLI::ValidationError("--trace-steps",
                               "'" + text + "' goes beyond any run's steps");
  if (read.ec != std::errc() || read.ptr != end || steps.first < 1 ||
      steps.last < steps.first)
    throw CLI::ValidationError(
        "--trace-steps", "'" + text +
                             "' is no range of steps, as in 3:5 (steps count "
                             "from 1, and both ends are traced)");
  return steps;
}

static void addTraceFlags(CLI::App &app, RunOptions &run) {
  auto *trace =
      app.add_option("--trace", run.trace,
                     "write when each command of some steps ran on all ranks, "
                     "and what was predicted, for ui.perfetto.dev "
                     "(docs/tracing.md)")
          ->check(notEmpty())
          ->type_name("FILE")
          ->group(heading::writes);
  app.add_option_function<std::string>(
         "--trace-steps",
         [&run](const std::string &text) {
           run.tracedSteps = parseSteps(text);
         },
         "which (default: 3:5, or what the run has of them)")
      ->type_name("A:B")
      ->group(heading::writes)
      ->needs(trace);
  app.add_option("--trace-cluster", run.traceCluster,
                 "predict for this one, a preset or a TOML file (default: the "
                 "plan's)")
      ->type_name("NAME")
      ->group(heading::writes)
      ->needs(trace);
}

void addRunFlags(CLI::App &app, RunOptions &run) {
  addInputFlags(app, run);
  addOutputFlags(app, run);
  addTraceFlags(app, run);
  addTrainingFlags(app, run);
  addLoggingFlags(app, run);
  addCheckpointFlags(app, run.checkpoints);
}

} // namespace fsdp

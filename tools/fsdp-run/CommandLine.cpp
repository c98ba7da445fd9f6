#include "CommandLine.h"
#include "FlagValidators.h"
#include "HelpScreen.h"

#include "device/Device.h"
#include "launch/ErrorReport.h"
#include "plan/NearestName.h"

#include <CLI/CLI.hpp>
#include <cctype>
#include <cmath>
#include <cstdio>

namespace fsdp {

/// "12.5" or "12.5,20".
static cost::Link parseLink(const std::string &text) {
  double bandwidth = 0, latency = 0;
  char rest = 0;
  int read =
      std::sscanf(text.c_str(), "%lf,%lf%c", &bandwidth, &latency, &rest);
  bool whole = read == 2 || (read == 1 && text.find(',') == std::string::npos);
  if (!whole || !(bandwidth > 0) || !(latency >= 0) ||
      !std::isfinite(bandwidth) || !std::isfinite(latency))
    throw CLI::ValidationError(
        "--throttle", "'" + text +
                          "' is not GB/s and microseconds, as in 10 or "
                          "10,20");
  return {bandwidth * 1e9, latency * 1e-6};
}

/// As of a shell's variable that is not set.
static CLI::Validator notEmpty() {
  return CLI::Validator(
      [](std::string &text) -> std::string {
        return text.empty() ? "its value is empty; is a variable of the shell "
                              "not set?"
                            : "";
      },
      "");
}

static void addRunFlags(CLI::App &app, RunOptions &run) {
  const char *files = "Files";
  app.add_option("--weights", run.weights,
                 "parameters, buffers and repeated inputs: a safetensors "
                 "file, an index of several, or a folder of them; each rank "
                 "reads its part")
      ->type_name("FILE")
      ->group(files);
  app.add_flag("--weights-from-rank0", run.weightsFromRank0,
               "rank 0 alone reads --weights, and sends each rank its part")
      ->group(files);
  app.add_option("--data", run.data,
                 "training samples: a safetensors file, a folder of them, or a "
                 "description of files (docs/data.md)")
      ->type_name("FILE")
      ->group(files);
  app.add_option("--data-command", run.dataCommand,
                 "a command that feeds each rank with batches in place of "
                 "--data (docs/data.md)")
      ->type_name("COMMAND")
      ->group(files)
      ->excludes("--data");
  app.add_option("--data-timeout", run.dataSeconds,
                 "seconds to wait for a batch of such a command (default: "
                 "1800)")
      ->check(secondsAboveZero())
      ->type_name("S")
      ->group(files);
  app.add_option("--eval-data", run.evalData,
                 "samples for the plan's evaluation")
      ->type_name("FILE")
      ->group(files);
  app.add_option("--eval-data-command", run.evalDataCommand,
                 "as --data-command, in place of --eval-data")
      ->type_name("COMMAND")
      ->group(files)
      ->excludes("--eval-data");
  app.add_option("--save", run.save,
                 "write the trained weights under their state_dict() names")
      ->type_name("FILE")
      ->group(files);
  app.add_option("--metrics", run.metrics,
                 "write a JSON line per logged step (docs/metrics.md)")
      ->type_name("FILE")
      ->group(files);
  app.add_option("--tensorboard", run.tensorboard,
                 "write the same as event files into this folder")
      ->check(notEmpty())
      ->type_name("DIR")
      ->group(files);
  app.add_option("--eval-outputs", run.evalOutputs,
                 "write what the evaluation gives for each sample "
                 "(docs/data.md), a row for each, as safetensors")
      ->type_name("FILE")
      ->group(files);
  app.add_option("--summary", run.summary,
                 "write counts, bytes and memory of the run as JSON")
      ->type_name("FILE")
      ->group(files);

  app.add_option("--flight-record", run.flightRecord,
                 "where each rank says how far it was when another one failed "
                 "or did not come (default: the folder of checkpoints, else of "
                 "--summary or --metrics)")
      ->type_name("DIR")
      ->group(files);

  const char *training = "Training";
  auto *steps = app.add_option("--steps", run.steps,
                               "length of the run (default: the plan's)")
                    ->check(wholeNumber(0, mostSteps))
                    ->type_name("N")
                    ->group(training);
  app.add_option("--epochs", run.epochs, "length of the run, in epochs")
      ->check(wholeNumber(0, mostEpochs))
      ->type_name("N")
      ->group(training)
      ->excludes(steps);
  app.add_option("--seed", run.seed,
                 "of shuffling and random operators (default: the plan's)")
      ->check(wholeNumber(INT64_MIN, INT64_MAX))
      ->type_name("N")
      ->group(training);
  app.add_flag("!--no-shuffle", run.shuffle, "read samples in stored order")
      ->group(training);
  app.add_option("--eval-interval", run.evalInterval,
                 "evaluate every N steps, not at each epoch's end")
      ->check(wholeNumber(0, mostSteps))
      ->type_name("N")
      ->group(training);
  app.add_option_function<std::string>(
         "--rng",
         [&run](const std::string &kind) {
           run.sequentialRandom = kind == "sequential";
         },
         "site: a stream per random operator; sequential: one stream in "
         "program order, as eager PyTorch (default: site)")
      ->check(CLI::IsMember({"site", "sequential"}))
      ->type_name("KIND")
      ->group(training);

  static const std::map<std::string, NonFinite> nonFinite = {
      {"continue", NonFinite::Continue},
      {"stop", NonFinite::Stop},
      {"skip", NonFinite::Skip}};
  app.add_option_function<std::string>(
         "--non-finite",
         [&run](const std::string &kind) {
           run.nonFinite = nonFinite.at(kind);
         },
         "what to do about a step whose loss, or a gradient, is infinite or "
         "NaN: continue, stop (with a checkpoint) or skip its update (default: "
         "as the plan was compiled, continue without non-finite=skip)")
      ->check(CLI::IsMember(nonFinite))
      ->type_name("KIND")
      ->group(training);

  app.add_flag("--cuda-graph", run.graph,
               "launch a step as one CUDA graph, once its first runs are over")
      ->group(training);

  const char *logging = "Logging";
  app.add_option("--log-interval", run.logInterval,
                 "log every N steps (default: 1)")
      ->check(wholeNumber(1, mostSteps))
      ->type_name("N")
      ->group(logging);
  app.add_flag("--log-grad-norm", run.logGradientNorm,
               "log the norm of all gradients")
      ->group(logging);
  app.add_option("--peak-flops", run.peakFlops,
                 "operations per second that one rank could do, for the metric "
                 "hfu (default: of the cluster that the plan was compiled for)")
      ->check(aboveZero("number of operations per second", mostFlops))
      ->type_name("F")
      ->group(logging);
  static const std::map<std::string, ProgressKind> kinds = {
      {"auto", ProgressKind::Auto},
      {"bar", ProgressKind::Bar},
      {"lines", ProgressKind::Lines},
      {"notes", ProgressKind::Notes},
      {"none", ProgressKind::None}};
  app.add_option_function<std::string>(
         "--progress",
         [&run](const std::string &kind) { run.progress = kinds.at(kind); },
         "auto, bar, lines, notes or none (default: a bar on a terminal)")
      ->check(CLI::IsMember(kinds))
      ->type_name("KIND")
      ->group(logging);
  app.add_flag("--poison", run.poison,
               "fill what is not alive with NaN and guard the ends of ranges")
      ->group(logging);
}

static void addCheckpointFlags(CLI::App &app, CheckpointOptions &options) {
  const char *group = "Checkpoints";
  auto *folder =
      app.add_option("--checkpoint-dir", options.folder,
                     "write checkpoints into this folder, which all hosts "
                     "share; one at the end, and when a signal ends the run")
          ->check(notEmpty())
          ->type_name("DIR")
          ->group(group);
  auto add = [&](const char *name, auto &value, const char *type,
                 const char *text) {
    return app.add_option(name, value, text)
        ->type_name(type)
        ->group(group)
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
      "keep the one with the least METRIC too, as in eval_loss");
  app.add_flag("--checkpoint-sync", options.synchronous,
               "wait until each is written, not only copied")
      ->group(group)
      ->needs(folder);
  app.add_flag("--checkpoint-must-succeed", options.mustSucceed,
               "end the run where one cannot be written")
      ->group(group)
      ->needs(folder);
  app.add_option("--resume", options.resume,
                 "auto: go on from the newest whole checkpoint of "
                 "--checkpoint-dir, or start where there is none; else from "
                 "this checkpoint or folder of some. --steps and --epochs are "
                 "the whole run's")
      ->check(notEmpty())
      ->type_name("auto|PATH")
      ->group(group);
}

/// What no flag alone can be blamed for.
static void checkCheckpointFlags(const RunOptions &run) {
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
  unsigned long long first = 0, last = 0;
  char rest = 0;
  int read = std::sscanf(text.c_str(), "%llu:%llu%c", &first, &last, &rest);
  if (read == 1 && text.find_first_not_of("0123456789") == std::string::npos)
    last = first;
  else if (read != 2)
    first = 0;
  if (first < 1 || last < first || text.find('-') != std::string::npos)
    throw CLI::ValidationError(
        "--trace-steps", "'" + text +
                             "' is no range of steps, as in 3:5 (steps count "
                             "from 1, and both ends are traced)");
  return {first, last};
}

static void addTraceFlags(CLI::App &app, RunOptions &run) {
  const char *group = "Trace";
  auto *trace =
      app.add_option("--trace", run.trace,
                     "write when each command of some steps ran on all ranks, "
                     "beside what was predicted: JSON for ui.perfetto.dev "
                     "(docs/tracing.md)")
          ->type_name("FILE")
          ->group(group);
  app.add_option_function<std::string>(
         "--trace-steps",
         [&run](const std::string &text) {
           run.tracedSteps = parseSteps(text);
         },
         "which (default: 3:5, or what the run has of them)")
      ->type_name("A:B")
      ->group(group)
      ->needs(trace);
  app.add_option("--trace-cluster", run.traceCluster,
                 "predict for this one, a preset or a TOML file (default: the "
                 "plan's)")
      ->type_name("NAME")
      ->group(group)
      ->needs(trace);
}

static void addCommFlags(CLI::App &app, LaunchOptions &launch) {
  const char *group = "Communication";
  app.add_option("--timeout", launch.patienceSeconds,
                 "seconds that a rank may keep the others waiting in a "
                 "collective before the run ends (default: 100 of the plan's "
                 "expected steps, at least 600)")
      ->check(secondsAboveZero())
      ->type_name("S")
      ->group(group);
  static const std::map<std::string, Transport> named = [] {
    std::map<std::string, Transport> result;
    for (const TransportInfo &info : transports)
      result[info.name] = info.transport;
    return result;
  }();
  app.add_option_function<std::string>(
         "--comm",
         [&launch](const std::string &name) {
           launch.transport = named.at(name);
         },
         "auto, shm (ranks of one host), gloo, or nccl (between GPUs). "
         "Default: "
         "shm where all ranks can share memory, else gloo; between GPUs nccl, "
         "or copies where ranks are threads")
      ->check(CLI::IsMember(named))
      ->type_name("KIND")
      ->group(group);
  app.add_flag("--single-communicator", launch.singleCommunicator,
               "NCCL: gathers and reductions share one communicator, and never "
               "run at once")
      ->group(group);
  app.add_option_function<std::string>(
         "--throttle",
         [&launch](const std::string &text) {
           launch.throttle = parseLink(text);
         },
         "imitate a network: GB/s from each rank to the next, on each channel, "
         "and microseconds of latency (default: 0)")
      ->type_name("GBPS[,US]")
      ->group(group);
}

static void addLaunchFlags(CLI::App &app, LaunchOptions &launch) {
  const char *ranks = "Ranks";
  app.add_option("--nproc", launch.nproc, "start N ranks on this host")
      ->check(wholeNumber(1, mostRanks))
      ->type_name("N")
      ->group(ranks);
  app.add_flag("--threads", launch.threads,
               "ranks are threads of this process, not processes")
      ->group(ranks);
  app.add_option("--nnodes", launch.nodes, "hosts, each with --nproc ranks")
      ->check(wholeNumber(1, mostRanks))
      ->type_name("N")
      ->group(ranks);
  app.add_option("--node-rank", launch.nodeRank, "which host this is, from 0")
      ->check(wholeNumber(0, mostRanks))
      ->type_name("N")
      ->group(ranks);
  app.add_option("--master-addr", launch.masterAddress,
                 "host 0's address (default: 127.0.0.1)")
      ->type_name("HOST")
      ->group(ranks);
  app.add_option("--master-port", launch.masterPort,
                 "a free port of host 0 (default: 29500)")
      ->check(wholeNumber(1, 65535))
      ->type_name("PORT")
      ->group(ranks);
  app.add_option("--rendezvous", launch.rendezvous,
                 "where ranks that a launcher started meet: env://, "
                 "tcp://HOST:PORT or file:///PATH (default: env://)")
      ->type_name("URL")
      ->group(ranks);
  app.add_option("--rendezvous-timeout", launch.meetingSeconds,
                 "seconds to wait for all ranks (default: 300)")
      ->check(wholeNumber(1, mostSeconds))
      ->type_name("S")
      ->group(ranks);
  app.add_option_function<std::string>(
         "--host-streams",
         [&launch](const std::string &kind) {
           launch.hostStreams = kind == "threads" ? HostStreamKind::Threads
                                                  : HostStreamKind::Inline;
         },
         "how collectives run beside compute on the host: inline, or threads, "
         "one per stream (default: inline)")
      ->check(CLI::IsMember({"inline", "threads"}))
      ->type_name("KIND")
      ->group(ranks);
  // The supervisor's own, for the ranks it starts.
  app.add_option("--supervisor", launch.supervisor)->group("");
}

std::optional<int> parseCommandLine(int argc, char **argv,
                                    CommandLine &result) {
  CLI::App app{"Trains a compiled plan on one or more ranks.\n\n"
               "  fsdp-run step.plan --nproc 2 --weights step.safetensors "
               "--data step.data.safetensors\n"
               "  torchrun --no-python --standalone --nproc-per-node 2 "
               "fsdp-run step.plan ...\n"
               "  fsdp-run --doctor --nproc 2\n",
               "fsdp-run"};
  app.set_version_flag(
      "--version",
      [] {
        return std::string("fsdp-run ") + FSDP_VERSION + ", PyTorch " +
               FSDP_TORCH + " with its Gloo, " + describeCuda();
      },
      "of this program, PyTorch, CUDA and NCCL");
  auto *plan = app.add_option("plan", result.plan,
                              "what fsdp-translate --fsdp-to-plan wrote")
                   ->type_name("PLAN");
  auto *doctor = app.add_flag("--doctor", result.doctor,
                              "no plan: look at all hosts of a run, try its "
                              "collectives, and name what is wrong")
                     ->excludes(plan);
  app.add_flag("--json", result.doctorJson, "what --doctor finds, as JSON")
      ->needs(doctor);
  app.add_option("--tune", result.tune,
                 "measure the plan's matrix products on this machine, one "
                 "rank's threads, into a table for fsdp-opt's kernel-table "
                 "(docs/kernels.md); products that it has are not measured "
                 "again. Trains nothing")
      ->check(notEmpty())
      ->type_name("FILE");
  addRunFlags(app, result.run);
  addCheckpointFlags(app, result.run.checkpoints);
  addTraceFlags(app, result.run);
  addLaunchFlags(app, result.launch);
  addCommFlags(app, result.launch);
  bool lists = false;
  app.add_flag("--list-flags", lists)->group("");
  setHelpScreens(app);
  try {
    app.parse(argc, argv);
    if (lists) {
      std::fputs(listFlags(app).c_str(), stdout);
      return 0;
    }
    if (!result.doctor && result.plan.empty())
      throw CLI::RequiredError("plan");
    checkCheckpointFlags(result.run);
  } catch (const CLI::Success &done) {
    return app.exit(done);
  } catch (const CLI::ExtrasError &) {
    std::string first = app.remaining().at(0);
    printError(first.compare(0, 1, "-") == 0
                   ? "there is no flag " + first +
                         nearestHint(first.substr(0, first.find('=')),
                                     flagNames(app)) +
                         "; see fsdp-run --help-all"
                   : "'" + first +
                         "' stands behind the plan, of which there is one; see "
                         "fsdp-run --help");
    return 2;
  } catch (const CLI::ParseError &mistake) {
    std::string text = mistake.what();
    if (!text.empty())
      text[0] = static_cast<char>(std::tolower(text[0]));
    printError(text + "; see fsdp-run --help");
    return 2;
  }
  return std::nullopt;
}

} // namespace fsdp

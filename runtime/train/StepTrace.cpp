#include "train/StepTrace.h"

#include "Error.h"
#include "comm/Gather.h"
#include "plan/Files.h"
#include "trace/JsonText.h"
#include "trace/Predict.h"
#include "trace/TraceOfPlan.h"

#include <algorithm>

namespace fsdp {

/// Steps that are recorded where nobody says which: of those that are run,
/// behind the first two, in which operators learn what memory they need.
static constexpr TracedSteps defaultSteps = {3, 5};

static TracedSteps findSteps(const RunOptions &options,
                             const RunLength &length) {
  if (length.done >= length.steps)
    return {0, 0};
  if (!options.tracedSteps)
    return {std::min(length.done + defaultSteps.first, length.steps),
            std::min(length.done + defaultSteps.last, length.steps)};
  TracedSteps steps = *options.tracedSteps;
  std::string given = "--trace-steps " + std::to_string(steps.first) + ":" +
                      std::to_string(steps.last);
  if (steps.last > length.steps)
    throw Error(E::TraceSteps, given + " goes beyond the run's " +
                                   std::to_string(length.steps) +
                                   (length.steps == 1 ? " step" : " steps") +
                                   "; name steps that it has");
  if (steps.first <= length.done)
    throw Error(E::TraceSteps,
                given + " begins before the run resumes, after step " +
                    std::to_string(length.done) + "; name steps behind it");
  return steps;
}

StepTrace::StepTrace(const plan::LoadedPlan &loaded, const RunOptions &options,
                     Communicator &communicator, const RunLength &length,
                     Note note)
    : loaded(loaded), options(options), communicator(communicator),
      note(std::move(note)) {
  TracedSteps steps = {0, 0};
  if (communicator.rank() == 0 && !options.trace.empty()) {
    steps = findSteps(options, length);
    cluster = trace::clusterFor(*loaded.plan, options.traceCluster);
  }
  // Other nodes may have been told nothing.
  uint64_t both[] = {steps.first, steps.last};
  if (communicator.size() > 1)
    communicator.broadcast(both, 2, plan::DType::Int64, 0);
  first = both[0];
  last = both[1];
}

void StepTrace::before(uint64_t step, Executor &executor) {
  if (isTraced(step))
    executor.setRecorder(&recorder);
}

bool StepTrace::after(uint64_t step, Executor &executor) {
  if (!isTraced(step))
    return false;
  executor.setRecorder(nullptr); // evaluations are no part of a step
  if (step != last)
    return false;
  finish();
  return true;
}

void StepTrace::finish() {
  if (!recorder.runs().empty()) // on all ranks, or on none
    write();
}

/// The predicted step begins where the first of rank 0 does.
static std::vector<trace::Process>
processesOf(const plan::PlanT &plan, const cost::Cluster &cluster,
            const std::vector<std::vector<char>> &packed,
            const std::vector<ClockOffset> &offsets) {
  std::vector<trace::Process> processes;
  for (size_t rank = 0; rank < packed.size(); ++rank) {
    trace::Process process = {"rank " + std::to_string(rank),
                              trace::unpackRuns(packed[rank]),
                              static_cast<uint32_t>(rank)};
    for (trace::ProgramRun &run : process.runs)
      run.shift(-offsets[rank].nanoseconds);
    processes.push_back(std::move(process));
  }
  std::vector<trace::ProgramRun> predicted =
      trace::predictStep(plan, cluster, processes[0].runs.at(0).begin);
  for (trace::ProgramRun &run : predicted)
    run.step = processes[0].runs.at(0).step;
  processes.insert(processes.begin(),
                   {"predicted on " + cluster.name, std::move(predicted)});
  return processes;
}

static std::string clocksText(const std::vector<ClockOffset> &offsets) {
  std::string text;
  for (const ClockOffset &offset : offsets)
    text +=
        (text.empty() ? "" : ",") + std::string("{\"offset_us\":") +
        trace::jsonNumber(offset.nanoseconds / 1e3) +
        ",\"uncertainty_us\":" + trace::jsonNumber(offset.uncertainty / 1e3) +
        "}";
  return "[" + text + "]";
}

void StepTrace::write() {
  std::vector<ClockOffset> offsets = clockOffsets(communicator, hostClock());
  std::vector<std::vector<char>> packed =
      gatherBytes(communicator, trace::packRuns(recorder.runs()), 0);
  std::vector<int64_t> uncertainties =
      gatherNumbers(communicator, recorder.uncertainty());
  for (size_t rank = 0; rank < offsets.size(); ++rank)
    offsets[rank].uncertainty += uncertainties[rank];
  recorder = {};
  if (communicator.rank() == 0)
    writeFile(packed, offsets);
  communicator.barrier();
}

void StepTrace::writeFile(const std::vector<std::vector<char>> &packed,
                          const std::vector<ClockOffset> &offsets) {
  trace::Metadata metadata = trace::metadataOf(loaded, cluster);
  metadata.emplace_back("transport",
                        trace::jsonString(communicator.transport()));
  metadata.emplace_back("clocks", clocksText(offsets));
  try {
    writeFileAtomically(
        trace::traceText(*loaded.plan, cluster,
                         processesOf(*loaded.plan, cluster, packed, offsets),
                         metadata),
        options.trace);
  } catch (const Error &error) { // the disk is full
    note("no trace: " + std::string(error.what()) + "; training goes on");
  }
}

} // namespace fsdp

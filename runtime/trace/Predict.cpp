#include "trace/Predict.h"

#include "cost/CommandCost.h"
#include "cost/StreamClocks.h"
#include "trace/CommandOrder.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace fsdp::trace {

namespace {

int64_t roundToNanoseconds(double seconds) {
  return std::llround(seconds * 1e9);
}

/// Follows the commands in the order of the list.
class Follower {
public:
  Follower(const plan::ProgramT &program, const std::set<uint32_t> &early)
      : needs(early.empty() ? Needs() : needsOf(program)), early(early),
        recorded(program.events) {}

  void run(uint32_t index, const plan::CommandT &command, double seconds) {
    const plan::OperationUnion &operation = command.operation;
    uint32_t stream = command.stream;
    if (early.count(index)) {
      double time = through.at(stream);
      for (uint32_t needed : needs[index])
        time = std::max(time, prediction.ends[needed]);
      clocks.set(stream, time);
    }
    prediction.begins.push_back(clocks.now(stream));
    if (const plan::RecordT *record = operation.AsRecord())
      recorded.at(record->event) = clocks.now(stream);
    else if (const plan::WaitT *wait = operation.AsWait())
      follow(index, stream, recorded.at(wait->event));
    else
      work(index, command, seconds);
    prediction.ends.push_back(clocks.now(stream));
  }

  Prediction end() {
    prediction.stepSeconds = clocks.stepSeconds();
    prediction.communicationSeconds = clocks.communicationSeconds();
    prediction.exposedSeconds = clocks.exposedSeconds();
    prediction.run.end = roundToNanoseconds(prediction.stepSeconds);
    return std::move(prediction);
  }

private:
  void work(uint32_t index, const plan::CommandT &command, double seconds) {
    uint32_t stream = command.stream;
    bool isCollective = command.operation.AsCollective() != nullptr;
    cost::Interval busy = isCollective ? clocks.communicate(stream, seconds)
                                       : clocks.run(stream, seconds);
    if (isCollective && stream == plan::computeStream) {
      prediction.exposed.push_back({index, busy.begin, busy.end});
      add(Span::Wait, stream, index, index, busy);
    }
    add(Span::Command, stream, index, index, busy);
    through[stream] = busy.end;
  }

  void follow(uint32_t index, uint32_t stream, double time) {
    cost::Interval waited = clocks.waitUntil(stream, time);
    if (stream != plan::computeStream || waited.isEmpty())
      return;
    prediction.exposed.push_back({index, waited.begin, waited.end});
    add(Span::Wait, stream, nothing, index, waited);
  }

  void add(Span::Kind kind, uint32_t stream, uint32_t command, uint32_t reached,
           cost::Interval when) {
    int64_t begin = roundToNanoseconds(when.begin),
            end = roundToNanoseconds(when.end);
    if (begin < end)
      prediction.run.spans.push_back(
          {kind, stream, command, reached, begin, end});
  }

  Needs needs;
  const std::set<uint32_t> &early;
  cost::StreamClocks clocks;
  // Of each stream, without what it waits for.
  std::array<double, std::size(plan::streamNames)> through = {};
  std::vector<double> recorded;
  Prediction prediction;
};

} // namespace

std::vector<double> secondsOf(const plan::PlanT &plan,
                              const plan::ProgramT &program,
                              const cost::Cluster &cluster) {
  std::vector<double> seconds;
  for (const auto &command : program.commands)
    seconds.push_back(cost::commandSeconds(plan, program, *command, cluster));
  return seconds;
}

Prediction follow(const plan::ProgramT &program,
                  const std::vector<double> &seconds,
                  const std::set<uint32_t> &early) {
  Follower follower(program, early);
  for (uint32_t c = 0; c < program.commands.size(); ++c)
    follower.run(c, *program.commands[c], seconds.at(c));
  return follower.end();
}

Prediction predict(const plan::PlanT &plan, uint32_t program,
                   const cost::Cluster &cluster) {
  const plan::ProgramT &of = *plan.programs.at(program);
  Prediction prediction = follow(of, secondsOf(plan, of, cluster));
  prediction.run.program = program;
  prediction.run.step = 1;
  return prediction;
}

std::vector<ProgramRun> predictStep(const plan::PlanT &plan,
                                    const cost::Cluster &cluster,
                                    int64_t begin) {
  if (plan::findProgram(plan, plan::stepProgramName) < 0)
    throw plan::PlanError(
        E::PlanContents,
        "the plan has no program 'step'; lower the training step again");
  std::vector<ProgramRun> runs;
  auto add = [&](int program, uint64_t microBatch) {
    ProgramRun run = predict(plan, program, cluster).run;
    run.microBatch = microBatch;
    run.shift(begin);
    begin = run.end;
    runs.push_back(std::move(run));
  };
  uint64_t last = plan.micro_batches - 1;
  for (uint64_t m = 0; m < last; ++m)
    add(plan::findProgram(plan, plan::accumulateProgramName), m);
  for (int turn :
       plan::turnsFrom(plan, plan::findProgram(plan, plan::stepProgramName)))
    add(turn, last);
  return runs;
}

} // namespace fsdp::trace

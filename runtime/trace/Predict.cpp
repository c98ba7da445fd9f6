#include "trace/Predict.h"

#include "cost/CommandCost.h"
#include "trace/CommandOrder.h"

#include <algorithm>
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
    double &time = now.at(command.stream);
    if (early.count(index)) {
      time = through.at(command.stream);
      for (uint32_t needed : needs[index])
        time = std::max(time, prediction.ends[needed]);
    }
    prediction.begins.push_back(time);
    if (const plan::RecordT *record = operation.AsRecord())
      recorded.at(record->event) = time;
    else if (const plan::WaitT *wait = operation.AsWait())
      follow(index, command.stream, recorded.at(wait->event));
    else
      work(index, command, seconds);
    prediction.ends.push_back(time);
  }

  Prediction end() {
    prediction.stepSeconds = *std::max_element(now.begin(), now.end());
    prediction.run.end = roundToNanoseconds(prediction.stepSeconds);
    return std::move(prediction);
  }

private:
  void work(uint32_t index, const plan::CommandT &command, double seconds) {
    double &time = now[command.stream];
    if (command.operation.AsCollective()) {
      prediction.communicationSeconds += seconds;
      if (command.stream == plan::computeStream) {
        expose(index, time, time + seconds);
        add(Span::Wait, command.stream, index, index, time, time + seconds);
      }
    }
    add(Span::Command, command.stream, index, index, time, time + seconds);
    time += seconds;
    through[command.stream] = time;
  }

  void follow(uint32_t index, uint32_t stream, double time) {
    if (time <= now.at(stream))
      return;
    if (stream == plan::computeStream) {
      expose(index, now[stream], time);
      add(Span::Wait, stream, nothing, index, now[stream], time);
    }
    now[stream] = time;
  }

  void expose(uint32_t command, double begin, double end) {
    prediction.exposedSeconds += end - begin;
    prediction.exposed.push_back({command, begin, end});
  }

  void add(Span::Kind kind, uint32_t stream, uint32_t command, uint32_t turn,
           double begin, double end) {
    if (roundToNanoseconds(begin) < roundToNanoseconds(end))
      prediction.run.spans.push_back({kind, stream, command, turn,
                                      roundToNanoseconds(begin),
                                      roundToNanoseconds(end)});
  }

  Needs needs;
  const std::set<uint32_t> &early;
  std::vector<double> now = std::vector<double>(std::size(plan::streamNames));
  std::vector<double> through = now; // without what the stream waits for
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
  if (plan::findProgram(plan, "step") < 0)
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
    add(plan::findProgram(plan, "accumulate"), m);
  for (int turn : plan::turnsFrom(plan, plan::findProgram(plan, "step")))
    add(turn, last);
  return runs;
}

} // namespace fsdp::trace

#include "trace/Predict.h"

#include "cost/CommandCost.h"

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
  explicit Follower(size_t events) : recorded(events) {}

  void run(uint32_t index, const plan::CommandT &command, double seconds) {
    const plan::OperationUnion &operation = command.operation;
    double &time = now.at(command.stream);
    if (const plan::RecordT *record = operation.AsRecord()) {
      recorded.at(record->event) = time;
      return;
    }
    if (const plan::WaitT *wait = operation.AsWait())
      return follow(index, command.stream, recorded.at(wait->event));
    bool onCompute = command.stream == plan::computeStream;
    if (operation.AsCollective()) {
      prediction.communicationSeconds += seconds;
      if (onCompute) {
        prediction.exposedSeconds += seconds;
        add(Span::Wait, command.stream, index, index, time, time + seconds);
      }
    }
    add(Span::Command, command.stream, index, index, time, time + seconds);
    time += seconds;
  }

  Prediction end() {
    prediction.stepSeconds = *std::max_element(now.begin(), now.end());
    prediction.run.end = roundToNanoseconds(prediction.stepSeconds);
    return std::move(prediction);
  }

private:
  void follow(uint32_t index, uint32_t stream, double time) {
    if (time <= now.at(stream))
      return;
    if (stream == plan::computeStream) {
      prediction.exposedSeconds += time - now[stream];
      add(Span::Wait, stream, nothing, index, now[stream], time);
    }
    now[stream] = time;
  }

  void add(Span::Kind kind, uint32_t stream, uint32_t command, uint32_t turn,
           double begin, double end) {
    if (roundToNanoseconds(begin) < roundToNanoseconds(end))
      prediction.run.spans.push_back({kind, stream, command, turn,
                                      roundToNanoseconds(begin),
                                      roundToNanoseconds(end)});
  }

  std::vector<double> now = std::vector<double>(std::size(plan::streamNames));
  std::vector<double> recorded;
  Prediction prediction;
};

} // namespace

Prediction predict(const plan::PlanT &plan, uint32_t program,
                   const cost::Cluster &cluster) {
  const plan::ProgramT &of = *plan.programs.at(program);
  Follower follower(of.events);
  for (uint32_t c = 0; c < of.commands.size(); ++c)
    follower.run(c, *of.commands[c],
                 cost::commandSeconds(plan, of, *of.commands[c], cluster));
  Prediction prediction = follower.end();
  prediction.run.program = program;
  prediction.run.step = 1;
  return prediction;
}

std::vector<ProgramRun> predictStep(const plan::PlanT &plan,
                                    const cost::Cluster &cluster,
                                    int64_t begin) {
  if (plan::findProgram(plan, "step") < 0)
    throw plan::PlanError(
        "the plan has no program 'step'; lower the training step again");
  std::vector<ProgramRun> runs;
  for (uint64_t m = 0; m < plan.micro_batches; ++m) {
    bool last = m + 1 == plan.micro_batches;
    ProgramRun run =
        predict(plan, plan::findProgram(plan, last ? "step" : "accumulate"),
                cluster)
            .run;
    run.microBatch = m;
    run.shift(begin);
    begin = run.end;
    runs.push_back(std::move(run));
  }
  return runs;
}

} // namespace fsdp::trace

// When each op of a program is predicted to run.

#include "fsdp/Analysis/Timeline.h"

#include "fsdp/Analysis/Places.h"
#include "plan/PlanTypes.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fsdp;

/// What is no command takes no time, on whichever stream.
static unsigned getStream(Operation *op) {
  auto command = dyn_cast<TimelineOpInterface>(op);
  return command ? command.getStream() : unsigned(plan::computeStream);
}

Timeline Timeline::compute(func::FuncOp program, const OpCost &cost) {
  Timeline timeline;
  double now[std::size(plan::streamNames)] = {};
  llvm::DenseMap<Value, double> futures;
  llvm::DenseMap<uint64_t, double> events;

  auto follow = [&](unsigned stream, double time) {
    if (time <= now[stream])
      return;
    if (stream == plan::computeStream)
      timeline.exposedSeconds += time - now[stream];
    now[stream] = time;
  };
  for (Operation &op : program.getBody().front()) {
    unsigned stream = std::min<unsigned>(getStream(&op), std::size(now) - 1);
    if (auto wait = dyn_cast<WaitOp>(op)) {
      follow(stream, futures.lookup(wait.getFuture()));
      continue;
    }
    if (auto record = dyn_cast<CmdRecordOp>(op)) {
      events[record.getEvent()] = now[stream];
      continue;
    }
    if (auto wait = dyn_cast<CmdWaitOp>(op)) {
      follow(stream, events.lookup(wait.getEvent()));
      continue;
    }
    double seconds = cost.getSeconds(&op);
    if (isa<StartOpInterface>(op)) {
      now[stream] = std::max(now[stream], now[plan::computeStream]);
      futures[op.getResult(0)] = now[stream] + seconds;
    }
    if (isa<CollectiveOpInterface>(op)) {
      timeline.communicationSeconds += seconds;
      if (stream == plan::computeStream)
        timeline.exposedSeconds += seconds;
    }
    if (seconds > 0)
      timeline.entries.push_back(
          {&op, stream, now[stream], now[stream] + seconds});
    now[stream] += seconds;
  }
  timeline.stepSeconds = now[plan::computeStream];
  for (double end : now)
    timeline.stepSeconds = std::max(timeline.stepSeconds, end);
  return timeline;
}

void Timeline::dump(raw_ostream &os) const {
  for (const Entry &entry : entries)
    os << llvm::format("%12.3f .. %12.3f us  ", entry.start * 1e6,
                       entry.end * 1e6)
       << plan::streamNames[entry.stream] << "  " << entry.op->getName() << " "
       << getModulePath(entry.op->getLoc()) << "\n";
  os << llvm::format("step %.3f us, communication %.3f us, exposed %.3f us\n",
                     stepSeconds * 1e6, communicationSeconds * 1e6,
                     exposedSeconds * 1e6);
}

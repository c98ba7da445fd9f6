// When each op of a program is predicted to run.

#include "fsdp/Analysis/Timeline.h"

#include "fsdp/Analysis/Places.h"
#include "plan/PlanTypes.h"

#include "llvm/Support/Format.h"

using namespace mlir;
using namespace fsdp;

/// The stream of an op. One that becomes no command takes no time, so that its
/// stream does not matter.
static unsigned getStream(Operation *op) {
  auto command = dyn_cast<TimelineOpInterface>(op);
  return command ? command.getStream() : unsigned(plan::computeStream);
}

Timeline Timeline::compute(func::FuncOp program, const OpCost &cost) {
  Timeline timeline;
  cost::StreamClocks &clocks = timeline.clocks;
  llvm::DenseMap<Value, double> futures;
  llvm::DenseMap<uint64_t, double> events;

  for (Operation &op : program.getBody().front()) {
    unsigned stream =
        std::min<unsigned>(getStream(&op), std::size(plan::streamNames) - 1);
    if (auto wait = dyn_cast<WaitOp>(op)) {
      clocks.waitUntil(stream, futures.lookup(wait.getFuture()));
      continue;
    }
    if (auto record = dyn_cast<CmdRecordOp>(op)) {
      events[record.getEvent()] = clocks.now(stream);
      continue;
    }
    if (auto wait = dyn_cast<CmdWaitOp>(op)) {
      clocks.waitUntil(stream, events.lookup(wait.getEvent()));
      continue;
    }
    bool isStart = isa<StartOpInterface>(op);
    if (isStart) // what it takes has been computed
      clocks.waitUntil(stream, clocks.now(plan::computeStream));
    double seconds = cost.getSeconds(&op);
    cost::Interval busy = isa<CollectiveOpInterface>(op)
                              ? clocks.communicate(stream, seconds)
                              : clocks.run(stream, seconds);
    if (isStart)
      futures[op.getResult(0)] = busy.end;
    if (!busy.isEmpty())
      timeline.entries.push_back({&op, stream, busy.begin, busy.end});
  }
  return timeline;
}

void Timeline::dump(raw_ostream &os) const {
  for (const Entry &entry : entries)
    os << llvm::format("%12.3f .. %12.3f us  ", entry.start * 1e6,
                       entry.end * 1e6)
       << plan::streamNames[entry.stream] << "  " << entry.op->getName() << " "
       << getModulePath(entry.op->getLoc()) << "\n";
  os << llvm::format("step %.3f us, communication %.3f us, exposed %.3f us\n",
                     getStepSeconds() * 1e6, getCommunicationSeconds() * 1e6,
                     getExposedSeconds() * 1e6);
}

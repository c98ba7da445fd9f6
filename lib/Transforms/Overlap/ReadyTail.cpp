// Which ops of a tail may run.

#include "Overlap/ReadyTail.h"
#include "Overlap/ProgramSchedule.h"

using namespace mlir;
using namespace fsdp;

void ReadyTail::add(Operation *op, bool onDemand, size_t earliest,
                    ArrayRef<Operation *> triggers) {
  size_t index = entries.size();
  auto update = dyn_cast<UpdateOp>(op);
  entries.push_back(
      {op, onDemand, update && getStaging(update), earliest, triggers.size()});
  indices[op] = index;
  for (Operation *trigger : triggers)
    waiting[trigger].push_back(index);
  if (triggers.empty())
    release(index);
}

void ReadyTail::release(size_t index) {
  const Entry &entry = entries[index];
  if (entry.onDemand)
    return;
  if (entry.earliest > slot)
    return due.push({entry.earliest, index});
  ready.insert(index);
  if (entry.staged)
    readyStaged.insert(index);
}

void ReadyTail::noteEmitted(Operation *op) {
  if (auto it = indices.find(op); it != indices.end()) {
    ready.erase(it->second);
    readyStaged.erase(it->second);
  }
  if (auto it = waiting.find(op); it != waiting.end())
    for (size_t index : it->second)
      if (--entries[index].missing == 0)
        release(index);
}

void ReadyTail::advanceTo(size_t next) {
  slot = next;
  while (!due.empty() && due.top().first <= slot) {
    size_t index = due.top().second;
    due.pop();
    release(index);
  }
}

Operation *ReadyTail::getFirstStagedBut(Operation *op) const {
  Operation *first = getFrom(readyStaged, 0);
  return first == op ? getFrom(readyStaged, indices.lookup(op) + 1) : first;
}

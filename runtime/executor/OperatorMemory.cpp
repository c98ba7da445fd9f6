#include "executor/OperatorMemory.h"

#include <algorithm>

namespace fsdp {

// The operator whose first run the calling thread is in.
static thread_local OperatorMemory *learner = nullptr;

OperatorMemory::OperatorMemory(Scratch &scratch)
    : AllocationSource(scratch.device), scratch(scratch),
      lesson(std::make_unique<Lesson>()) {}

OperatorMemory::Attention::Attention(OperatorMemory &memory) : source(memory) {
  learner = memory.lesson ? &memory : nullptr;
}

OperatorMemory::Attention::~Attention() { learner = nullptr; }

/// Releases a block of the default allocator that an operator learned.
template <c10::DeviceType Type> static void releaseLearned(void *pointer) {
  OperatorMemory::noteRelease(pointer);
  defaultAllocator(Type).raw_deleter()(pointer);
}

void OperatorMemory::expectOutput(char *address, uint64_t bytes) {
  lesson->expected.push_back({address, bytes});
}

c10::DataPtr OperatorMemory::learn(size_t bytes) {
  lesson->events.push_back(sequence.size() << 1);
  sequence.push_back({bytes, nullptr});
  auto &expected = lesson->expected;
  auto found = std::find_if(expected.begin(), expected.end(),
                            [&](auto &e) { return e.bytes == bytes; });
  if (found != expected.end()) {
    char *place = found->address;
    expected.erase(found);
    lesson->blocks.push_back({place, false, true});
    return {place, place, noteRelease, device};
  }
  c10::Allocator &allocator = defaultAllocator(device.type());
  c10::DataPtr block = allocator.allocate(bytes);
  lesson->blocks.push_back({block.get(), false, false});
  c10::DeleterFnPtr release =
      device.is_cpu() ? releaseLearned<c10::kCPU> : releaseLearned<c10::kCUDA>;
  if (!block.compare_exchange_deleter(allocator.raw_deleter(), release))
    keepsBlocks = true; // its release cannot be seen
  return block;
}

c10::DataPtr OperatorMemory::allocate(size_t bytes) {
  if (lesson)
    return learn(bytes);
  if (keepsBlocks)
    return scratch.allocateOutside(bytes);
  size_t position = next;
  if (position < sequence.size() && sequence[position].bytes == bytes) {
    ++next;
    if (char *planned = sequence[position].planned)
      return lentPointer(planned, device);
  } else {
    next = sequence.size(); // another sequence than the first run's
  }
  return scratch.allocate(bytes);
}

void OperatorMemory::noteRelease(void *pointer) {
  if (!learner)
    return;
  Lesson &lesson = *learner->lesson;
  // Backwards: memory that was freed may have been given out again.
  for (size_t i = lesson.blocks.size(); i-- > 0;)
    if (lesson.blocks[i].pointer == pointer && !lesson.blocks[i].released) {
      lesson.blocks[i].released = true;
      lesson.events.push_back(i << 1 | 1);
      return;
    }
}

void OperatorMemory::learnOutput(const at::Tensor &result, char *address,
                                 uint64_t bytes) {
  if (result.storage_offset() != 0)
    return;
  const void *data = result.storage().data();
  for (size_t i = lesson->blocks.size(); i-- > 0;)
    if (lesson->blocks[i].pointer == data && !lesson->blocks[i].released) {
      // Two results may share a block: only one can have it.
      if (!sequence[i].planned && sequence[i].bytes <= bytes)
        sequence[i].planned = address;
      return;
    }
}

uint64_t OperatorMemory::endRun(std::vector<at::Tensor> &results) {
  {
    Attention attention(*this);
    results.clear();
  }
  next = 0;
  if (lesson)
    return finishLesson();
  // What a run keeps although the first one kept nothing.
  if (!scratch.reclaim())
    keepsBlocks = true;
  return 0;
}

uint64_t OperatorMemory::finishLesson() {
  uint64_t taken = 0;
  for (size_t i = 0; i < sequence.size(); ++i)
    if (!lesson->blocks[i].released) {
      keepsBlocks = true;
      taken += lesson->blocks[i].planned ? sequence[i].bytes : 0;
    }
  if (!keepsBlocks) {
    BlockStack stack;
    std::vector<uint64_t> offsets(sequence.size());
    for (size_t event : lesson->events) {
      size_t i = event >> 1;
      if (sequence[i].planned)
        continue;
      if (event & 1) {
        stack.remove(offsets[i]);
      } else {
        offsets[i] = stack.push(sequence[i].bytes);
        scratch.require(stack.top());
      }
    }
  }
  lesson.reset();
  return taken;
}

} // namespace fsdp

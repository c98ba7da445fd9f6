#include "executor/OperatorMemory.h"

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

c10::DataPtr OperatorMemory::allocate(size_t bytes) {
  if (lesson) {
    c10::Allocator &allocator = defaultAllocator(device.type());
    c10::DataPtr block = allocator.allocate(bytes);
    lesson->events.push_back(sequence.size() << 1);
    lesson->blocks.push_back({block.get(), false});
    sequence.push_back({bytes, nullptr});
    c10::DeleterFnPtr release = device.is_cpu() ? releaseLearned<c10::kCPU>
                                                : releaseLearned<c10::kCUDA>;
    if (!block.compare_exchange_deleter(allocator.raw_deleter(), release))
      keepsBlocks = true; // its release cannot be seen
    return block;
  }
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

void OperatorMemory::endRun(std::vector<at::Tensor> &results) {
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
}

void OperatorMemory::finishLesson() {
  for (const Lesson::Block &block : lesson->blocks)
    keepsBlocks |= !block.released;
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
}

} // namespace fsdp

#ifndef FSDP_RUNTIME_EXECUTOR_OPERATORMEMORY_H
#define FSDP_RUNTIME_EXECUTOR_OPERATORMEMORY_H

#include "executor/Scratch.h"

#include <ATen/core/Tensor.h>
#include <memory>
#include <vector>

namespace fsdp {

/// What one operator of the plan allocates while it runs. In its first run it
/// is learned which of its allocations become its outputs: by their position
/// in the sequence, never by size, since a kernel may well ask for a buffer as
/// large as an output first. From then on those get the planned blocks and all
/// others scratch. Where a later run allocates differently, its outputs land
/// elsewhere and are copied: slower, not wrong.
///
/// So that the first run takes no second memory for a large output, the first
/// allocation of its size gets the planned block for that run. It is looked at
/// afterwards like any other: what turns out to be an output is copied home.
class OperatorMemory : public AllocationSource {
public:
  explicit OperatorMemory(Scratch &scratch);

  /// While it lives, the calling thread runs the operator.
  class Attention {
  public:
    explicit Attention(OperatorMemory &memory);
    ~Attention();

  private:
    UseSource source;
  };

  /// Before the first run: a result of so many bytes belongs at `address`,
  /// where nothing else is while the operator runs.
  void expectOutput(char *address, uint64_t bytes);
  /// In the first run: `result` is planned to lie in the `bytes` at `address`.
  /// Called before it is released.
  void learnOutput(const at::Tensor &result, char *address, uint64_t bytes);
  bool isLearning() const { return bool(lesson); }
  /// It keeps blocks from run to run, so none of them is scratch or planned.
  bool keeps() const { return keepsBlocks; }

  /// Ends a run: releases `results`, and sees what is not back. Returns how
  /// many bytes of an expected output's place the operator keeps for itself, by
  /// which the plan cannot go on; 0: none.
  [[nodiscard]] uint64_t endRun(std::vector<at::Tensor> &results);
  /// After an error: the next run begins anew. Allocates nothing.
  void abandonRun(std::vector<at::Tensor> &results) {
    results.clear();
    next = 0;
  }

  c10::DataPtr allocate(size_t bytes) override;

  /// Tells the operator that learns in this thread, if any, that a block of
  /// the default allocator is freed.
  static void noteRelease(void *pointer);

private:
  struct Allocation {
    uint64_t bytes;
    char *planned; // null: scratch
  };
  /// The first run: who was allocated and freed when.
  struct Lesson {
    struct Block {
      void *pointer;
      bool released;
      bool planned; // an expected output's place, not the default allocator's
    };
    struct Expected {
      char *address;
      uint64_t bytes;
    };
    std::vector<Expected> expected;
    std::vector<Block> blocks;  // as `sequence`
    std::vector<size_t> events; // block << 1 | released
  };

  c10::DataPtr learn(size_t bytes);
  uint64_t finishLesson();

  Scratch &scratch;
  std::vector<Allocation> sequence;
  size_t next = 0;
  bool keepsBlocks = false; // so none of them may be scratch or planned
  std::unique_ptr<Lesson> lesson;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_OPERATORMEMORY_H

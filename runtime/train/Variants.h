#ifndef FSDP_RUNTIME_TRAIN_VARIANTS_H
#define FSDP_RUNTIME_TRAIN_VARIANTS_H

#include "Error.h"
#include "comm/Communicator.h"
#include "plan/PlanTypes.h"

#include <string>
#include <vector>

namespace fsdp {

/// Ranks have batches of different shapes. All of them know, and nothing has
/// happened.
struct Disagreement : Error {
  explicit Disagreement(const std::string &message)
      : Error(E::Batch, message) {}
};

/// A program and those that do the same for batches of other shapes: a batch
/// chooses one of them.
class Variants {
public:
  /// Of the program `name`, which there is. The plan outlives it.
  Variants(const plan::PlanT &plan, const char *name)
      : plan(plan), numbers(plan::findVariants(plan, name)) {}

  size_t size() const { return numbers.size(); }
  const plan::ProgramT &operator[](size_t variant) const {
    return *plan.programs.at(numbers.at(variant));
  }
  /// The number in the plan.
  int number(size_t variant) const { return numbers.at(variant); }

  /// Whether no turn behind a program's reads the same batch.
  bool readsLast(int program) const {
    return plan.programs.at(program)->next < 0;
  }

  /// The number in the plan of the variant that every rank's batch chooses.
  /// Collective where there are several. Throws Disagreement, on all ranks
  /// alike.
  int agree(Communicator &communicator, size_t chosen) const;
  /// All batches that are read: "x [4, 6] and y [4], or x [2, 6] and y [2]".
  std::string shapes() const;

private:
  const plan::PlanT &plan;
  std::vector<int> numbers;
};

/// "x, y and z".
std::string inputNames(const plan::ProgramT &program);

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_VARIANTS_H

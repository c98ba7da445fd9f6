// Runs of all ranks of a plan, ordinary ones and simulated ones.
#ifndef FSDP_TEST_SIMULATION_SIMULATION_H
#define FSDP_TEST_SIMULATION_SIMULATION_H

#include "plan/PlanTypes.h"

#include <ATen/core/Tensor.h>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace fsdp::test {

struct Inputs {
  std::string weights, data; // files; empty: none
  uint64_t steps = 2;
};

/// What a rank ends with.
struct Ending {
  std::vector<std::vector<double>> outputs; // by step
  std::vector<at::Tensor> states;           // undefined: in a flat one
  std::string error;                        // empty: it has done all its steps
  bool blamesOthers = false;                // the error is a PeerFailure
};

/// How a simulated run ended.
enum class Verdict {
  Same,     // every rank has the bits of the ordinary run
  Reported, // a rank was made to fail, and each other one said so
  Differs,
  Fails, // otherwise than it was made to
};

struct Finding {
  Verdict verdict;
  std::string text; // what differs, or the error
};

/// A plan with its first values and data, read once; and its ordinary run, on
/// threads that share memory, which all others are compared with.
class Simulation {
public:
  /// `plan` is one that the checker accepts. Throws Error, or what a rank
  /// threw.
  Simulation(const plan::PlanT &plan, const Inputs &inputs);
  ~Simulation();

  /// Runs the plan, or one that was made of it and may be broken, in an order
  /// that follows from the seed: on the runtime's own streams where the seed is
  /// odd, else on streams that do all that the checker takes for possible. In
  /// one of five runs a rank fails.
  Finding run(const plan::PlanT &plan, uint64_t seed) const;

  /// Whether the ordinary run's outputs are numbers: else little could differ.
  bool isFinite() const;

private:
  struct Rank;
  struct Seeded;
  std::vector<Ending> simulate(const plan::PlanT &plan,
                               const Seeded &seeded) const;

  const plan::PlanT plan;
  Inputs inputs;
  std::vector<std::unique_ptr<Rank>> ranks;
};

} // namespace fsdp::test

#endif // FSDP_TEST_SIMULATION_SIMULATION_H

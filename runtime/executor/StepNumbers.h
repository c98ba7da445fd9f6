#ifndef FSDP_RUNTIME_EXECUTOR_STEPNUMBERS_H
#define FSDP_RUNTIME_EXECUTOR_STEPNUMBERS_H

#include "executor/Scalars.h"
#include "executor/Staging.h"
#include "plan/PlanTypes.h"

#include <ATen/core/Tensor.h>
#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace fsdp {

/// The numbers that change from run to run and that kernels read in the
/// device's memory: step scalars and seeds. So a captured graph stays valid.
/// One copy on stream 0 brings all of them before each run.
class StepNumbers {
public:
  /// Room for all that the plan's calls may hold. The states' tensors are read
  /// when scalars are held.
  StepNumbers(const plan::PlanT &plan, const std::vector<at::Tensor> &states,
              Backend &backend);

  /// Scalars of one program or rule.
  class List {
  public:
    /// A tensor of one element that is scalar `scalar` of the list in each run:
    /// a state's own number, or a number of this dtype.
    at::Tensor hold(size_t scalar, at::ScalarType dtype);
    /// The scalars' values in the next run. Those that are a state's number are
    /// not looked at.
    void set(const std::vector<double> &scalars);

  private:
    friend class StepNumbers;
    List(StepNumbers &all, const ScalarList &scalars)
        : all(all), scalars(scalars) {}
    struct Held {
      size_t scalar, slot;
      at::ScalarType dtype;
    };
    StepNumbers &all;
    const ScalarList &scalars;
    std::vector<Held> held;
  };
  /// The scalars must outlive it.
  List &newList(const ScalarList &scalars);

  /// Where the seed of a site lies in the device's memory, a uint64_t.
  void *seedOf(int64_t site);
  void setSeeds(const std::function<uint64_t(int64_t site)> &seed);

  /// Brings the numbers to the device, for what is launched on stream 0 after
  /// it.
  void send(Streams &streams);

private:
  static constexpr uint64_t slotBytes = 8;
  size_t takeSlot();
  char *deviceSlot(size_t slot) const {
    return memory.data() + slot * slotBytes;
  }

  const std::vector<at::Tensor> &states;
  Backend &backend;
  DeviceMemory memory;
  std::vector<char> numbers; // as they shall be on the device
  size_t used = 0;
  std::deque<List> lists;
  std::map<int64_t, size_t> seeds; // slots, by site

  // A run's numbers on their way. The ones before may still be.
  std::array<Staging, 2> sendings;
  size_t numSent = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_EXECUTOR_STEPNUMBERS_H

// What a communicator must do, whichever it is: the suite's ranks, numbers and
// memory. Each file of tests derives a fixture and instantiates it for
// everyCommunicator().
#ifndef FSDP_TEST_UNIT_COMM_CONFORMANCE_H
#define FSDP_TEST_UNIT_COMM_CONFORMANCE_H

#include "RankThreads.h"
#include "TensorFunctions.h"
#include "comm/GlooCommunicator.h"
#include "comm/SharedMemoryCommunicator.h"
#include "comm/ThrottledCommunicator.h"
#include "device/ScalarType.h"

#include <atomic>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace fsdp::test {

/// A kind of communicator, and for how many ranks.
struct Case {
  bool gloo, throttled;
  int ranks;

  std::string name() const {
    return std::string(throttled ? "Throttled" : "") +
           (gloo ? "Gloo" : "SharedMemory") + std::to_string(ranks);
  }
};

inline std::vector<Case> everyCommunicator() {
  std::vector<Case> all;
  for (bool gloo : {false, true})
    for (bool throttled : {false, true})
      for (int ranks : {1, 2, 3})
        all.push_back({gloo, throttled, ranks});
  all.push_back({/*gloo=*/false, /*throttled=*/false, 5});
  return all;
}

inline std::string nameOf(const testing::TestParamInfo<Case> &info) {
  return info.param.name();
}

inline Connect connector(const Case &which) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  return [=](int rank) {
    constexpr auto timeout = std::chrono::seconds(30);
    auto result = which.gloo
                      ? createGlooCommunicator(*store, rank, which.ranks,
                                               {"", /*loopback=*/true}, timeout)
                      : createSharedMemoryCommunicator(*store, rank,
                                                       which.ranks, timeout);
    return which.throttled
               ? createThrottledCommunicator(std::move(result), {1e9, 1e-6})
               : std::move(result);
  };
}

class Conformance : public testing::TestWithParam<Case> {
protected:
  int ranks() const { return GetParam().ranks; }

  std::vector<std::string> onRanks(const Body &body) {
    return test::onRanks(ranks(), connector(GetParam()), body);
  }
  /// `check` returns whether this rank has what it should.
  void everywhere(const std::function<bool(Communicator &)> &check) {
    std::atomic<int> wrong{0};
    for (const std::string &error : onRanks([&](Communicator &c) {
           if (!check(c))
             ++wrong;
         }))
      EXPECT_EQ(error, "");
    EXPECT_EQ(wrong, 0);
  }
};

/// Numbers of different sizes, whose sum depends on the order; of integers
/// ones that overflow.
inline at::Tensor contribution(int rank, int64_t count, plan::DType dtype) {
  at::Tensor n = at::arange(count, at::kDouble);
  at::ScalarType type = toScalarType(dtype);
  if (type == at::kBool || c10::isIntegralType(type, false))
    return at::remainder(n * 31 + rank * 50, 120).to(type);
  at::Tensor t = at::sin(n * (rank + 1.3)) * std::pow(10.0, rank % 4);
  return (c10::isComplexType(type) ? at::complex(t, at::cos(n + rank)) : t)
      .to(type);
}

/// The sum in rank order, each addition and the division as PyTorch's.
inline at::Tensor orderedSum(int ranks, int64_t count, plan::DType dtype,
                             double divisor = 1) {
  at::Tensor sum = contribution(0, count, dtype);
  for (int r = 1; r < ranks; ++r)
    sum = at::add(sum, contribution(r, count, dtype));
  return divisor == 1 ? sum : at::div(sum, divisor);
}

/// What was moved and not computed with: few kernels take every dtype.
inline bool sameBits(const at::Tensor &a, const at::Tensor &b) {
  return at::equal(a.view(at::kByte), b.view(at::kByte));
}

/// All ranks' contributions, one after the other.
inline at::Tensor concatenation(int ranks, int64_t count, plan::DType dtype) {
  std::vector<at::Tensor> all;
  for (int r = 0; r < ranks; ++r)
    all.push_back(contribution(r, count, dtype));
  return at::cat(all);
}

/// Makes tensors: in an arena of the communicator's, or anywhere.
class Memory {
public:
  Memory(Communicator &c, bool inArena) {
    if (!inArena)
      return;
    ArenaLayout layout;
    layout.arenaBytes = 8 << 20;
    arena = c.allocate(layout);
  }
  /// All memory is free again.
  void clear() { used = 0; }
  at::Tensor empty(int64_t count, plan::DType dtype) {
    auto options = at::TensorOptions(toScalarType(dtype));
    if (!arena)
      return at::empty({count}, options);
    at::Tensor t = at::from_blob(arena->arena() + used, {count}, options);
    used += (t.nbytes() + 63) / 64 * 64;
    return t;
  }
  at::Tensor put(const at::Tensor &values, plan::DType dtype) {
    return empty(values.numel(), dtype).copy_(values);
  }

private:
  std::unique_ptr<ArenaMemory> arena;
  size_t used = 0;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_COMM_CONFORMANCE_H

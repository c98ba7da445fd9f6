// Tests that every communicator moves and adds the same bits: one suite for all
// of them, with data whose sums are exact and data that shows the order of
// summation.
#include "comm/GlooCommunicator.h"
#include "comm/ThreadCommunicator.h"

#include <ATen/ATen.h>
#include <atomic>
#include <functional>
#include <gtest/gtest.h>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

using namespace fsdp;

namespace {

enum class Kind { Threads, Gloo };
using Body = std::function<void(Communicator &)>;

/// Runs `body` on every rank; a rank that throws aborts the others. Returns
/// what each rank threw.
std::vector<std::string> onRanks(Kind kind, int ranks, const Body &body) {
  auto group = std::make_shared<ThreadGroup>(ranks);
  auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::string> errors(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      std::unique_ptr<Communicator> communicator;
      try {
        if (kind == Kind::Threads)
          communicator = std::make_unique<ThreadCommunicator>(group, r);
        else
          communicator = createGlooCommunicator(*store, r, ranks, {"", true},
                                                std::chrono::seconds(30));
        body(*communicator);
      } catch (const std::exception &error) {
        errors[r] = error.what();
        if (communicator)
          communicator->abort(error.what());
      }
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors;
}

at::ScalarType scalarType(plan::DType dtype) {
  switch (dtype) {
  case plan::DType::UInt8:
    return at::kByte;
  case plan::DType::Int64:
    return at::kLong;
  case plan::DType::Float16:
    return at::kHalf;
  case plan::DType::BFloat16:
    return at::kBFloat16;
  case plan::DType::Float64:
    return at::kDouble;
  default:
    return at::kFloat;
  }
}

/// Small integers: their sums are exact in every dtype. With `rough`, numbers
/// of different sizes, whose sum depends on the order.
at::Tensor contribution(int rank, int64_t count, plan::DType dtype,
                        bool rough = false) {
  at::Tensor n = at::arange(count, at::kDouble);
  at::Tensor t = rough ? at::sin(n * (rank + 1.3)) * std::pow(10.0, rank % 4)
                       : at::remainder(n * 3 + rank * 5, 7);
  return t.to(scalarType(dtype)).contiguous();
}

at::Tensor orderedSum(int ranks, int64_t count, plan::DType dtype, bool rough) {
  at::Tensor sum = contribution(0, count, dtype, rough);
  for (int r = 1; r < ranks; ++r)
    sum = at::add(sum, contribution(r, count, dtype, rough));
  return sum;
}

constexpr plan::DType dtypes[] = {plan::DType::UInt8,   plan::DType::Int64,
                                  plan::DType::Float16, plan::DType::BFloat16,
                                  plan::DType::Float32, plan::DType::Float64};
constexpr int64_t counts[] = {0, 1, 3, 64, 1027};

} // namespace

class Conformance : public testing::TestWithParam<std::tuple<Kind, int>> {
protected:
  Kind kind() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }

  /// `check` returns whether this rank has what it should.
  void everywhere(const std::function<bool(Communicator &)> &check) {
    std::atomic<int> wrong{0};
    for (const std::string &error :
         onRanks(kind(), ranks(), [&](Communicator &c) {
           if (!check(c))
             ++wrong;
         }))
      EXPECT_EQ(error, "");
    EXPECT_EQ(wrong, 0);
  }

  template <typename Check> void forAll(Check check) {
    everywhere([&](Communicator &c) {
      bool good = true;
      for (plan::DType dtype : dtypes)
        for (int64_t count : counts)
          good = check(c, dtype, count) && good;
      return good;
    });
  }
};

TEST_P(Conformance, AllGather) {
  forAll([&](Communicator &c, plan::DType dtype, int64_t count) {
    std::vector<at::Tensor> all;
    for (int r = 0; r < ranks(); ++r)
      all.push_back(contribution(r, count, dtype));
    at::Tensor expected = at::cat(all), actual = at::zeros_like(expected);
    c.allGather(all[c.rank()].const_data_ptr(), actual.data_ptr(), count,
                dtype);
    bool good = at::equal(actual, expected);
    // In place.
    actual.zero_();
    at::Tensor mine = actual.narrow(0, c.rank() * count, count);
    mine.copy_(all[c.rank()]);
    c.allGather(mine.data_ptr(), actual.data_ptr(), count, dtype);
    return good && at::equal(actual, expected);
  });
}

TEST_P(Conformance, ReduceScatter) {
  forAll([&](Communicator &c, plan::DType dtype, int64_t count) {
    bool good = true;
    for (bool rough : {false, true}) {
      if (rough && dtype < plan::DType::Float16)
        continue;
      at::Tensor sum = orderedSum(ranks(), count * ranks(), dtype, rough);
      at::Tensor expected = sum.narrow(0, c.rank() * count, count);
      at::Tensor from = contribution(c.rank(), count * ranks(), dtype, rough);
      at::Tensor actual = at::zeros({count}, from.options());
      c.reduceScatter(from.const_data_ptr(), actual.data_ptr(), count, dtype);
      good = good && at::equal(actual, expected);
      at::Tensor mine = from.narrow(0, c.rank() * count, count);
      c.reduceScatter(from.const_data_ptr(), mine.data_ptr(), count, dtype);
      good = good && at::equal(mine, expected);
    }
    return good;
  });
}

TEST_P(Conformance, AllReduce) {
  forAll([&](Communicator &c, plan::DType dtype, int64_t count) {
    bool rough = dtype >= plan::DType::Float16;
    at::Tensor expected = orderedSum(ranks(), count, dtype, rough);
    at::Tensor from = contribution(c.rank(), count, dtype, rough);
    at::Tensor actual = at::zeros_like(from);
    c.allReduce(from.const_data_ptr(), actual.data_ptr(), count, dtype);
    bool good = at::equal(actual, expected);
    c.allReduce(from.const_data_ptr(), from.data_ptr(), count, dtype);
    return good && at::equal(from, expected);
  });
}

TEST_P(Conformance, BroadcastAndBarrier) {
  forAll([&](Communicator &c, plan::DType dtype, int64_t count) {
    bool good = true;
    for (int root = 0; root < ranks(); ++root) {
      at::Tensor buffer = contribution(c.rank(), count, dtype);
      c.broadcast(buffer.data_ptr(), count, dtype, root);
      good = good && at::equal(buffer, contribution(root, count, dtype));
      c.barrier();
    }
    return good;
  });
}

TEST_P(Conformance, RankThatFailsWakesTheOthers) {
  if (ranks() == 1)
    return;
  std::vector<std::string> errors =
      onRanks(kind(), ranks(), [&](Communicator &c) {
        c.barrier();
        if (c.rank() == 1)
          throw std::runtime_error("rank 1 has had enough");
        float x = 1;
        try {
          for (;;)
            c.allReduce(&x, &x, 1, plan::DType::Float32);
        } catch (const PeerFailure &) {
          throw;
        } catch (...) {
          // Only PeerFailure may come out.
        }
      });
  for (const std::string &error : errors)
    EXPECT_NE(error, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, Conformance,
    testing::Combine(testing::Values(Kind::Threads, Kind::Gloo),
                     testing::Range(1, 6)),
    [](const auto &info) {
      return std::string(std::get<0>(info.param) == Kind::Gloo ? "Gloo"
                                                               : "Threads") +
             std::to_string(std::get<1>(info.param));
    });

// Tests that every communicator moves and adds the same bits: one suite for all
// of them, with data whose sums are exact and data that shows the order of
// summation, in memory of its own and in memory that the communicator gave.
#include "RankThreads.h"
#include "comm/GlooCommunicator.h"
#include "comm/SharedMemoryCommunicator.h"
#include "comm/ThrottledCommunicator.h"

#include <ATen/ATen.h>
#include <atomic>
#include <gtest/gtest.h>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

enum class Kind { SharedMemory, Gloo, Throttled };
const char *const kindNames[] = {"SharedMemory", "Gloo", "Throttled"};

Connect connector(Kind kind, int ranks) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  return [=](int r) -> std::unique_ptr<Communicator> {
    constexpr auto timeout = std::chrono::seconds(30);
    if (kind == Kind::Gloo)
      return createGlooCommunicator(*store, r, ranks, {"", true}, timeout);
    auto memory = createSharedMemoryCommunicator(*store, r, ranks, timeout);
    if (kind == Kind::SharedMemory)
      return memory;
    return createThrottledCommunicator(std::move(memory), {1e9, 1e-6});
  };
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

bool isFloating(plan::DType dtype) { return dtype >= plan::DType::Float16; }

/// Small integers: their sums are exact in every dtype. With `rough`, numbers
/// of different sizes, whose sum depends on the order.
at::Tensor contribution(int rank, int64_t count, plan::DType dtype,
                        bool rough = false) {
  at::Tensor n = at::arange(count, at::kDouble);
  at::Tensor t = rough ? at::sin(n * (rank + 1.3)) * std::pow(10.0, rank % 4)
                       : at::remainder(n * 3 + rank * 5, 7);
  return t.to(scalarType(dtype)).contiguous();
}

at::Tensor orderedSum(int ranks, int64_t count, plan::DType dtype, bool rough,
                      double divisor = 1) {
  at::Tensor sum = contribution(0, count, dtype, rough);
  for (int r = 1; r < ranks; ++r)
    sum = at::add(sum, contribution(r, count, dtype, rough));
  return divisor == 1 ? sum : at::div(sum, divisor);
}

constexpr plan::DType dtypes[] = {plan::DType::UInt8,   plan::DType::Int64,
                                  plan::DType::Float16, plan::DType::BFloat16,
                                  plan::DType::Float32, plan::DType::Float64};
/// The last is several times what one part, or one round, moves.
constexpr int64_t counts[] = {0, 1, 1027, 70'001};

/// Makes tensors: in an arena of the communicator's, or anywhere.
class Memory {
public:
  Memory(Communicator &c, bool inArena) {
    if (!inArena)
      return;
    ArenaLayout layout;
    layout.arenaBytes = 32 << 20;
    arena = c.allocate(layout);
  }
  /// All memory is free again.
  void clear() { used = 0; }
  at::Tensor empty(int64_t count, plan::DType dtype) {
    auto options = at::TensorOptions(scalarType(dtype));
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

} // namespace

class Conformance : public testing::TestWithParam<std::tuple<Kind, int>> {
protected:
  Kind kind() const { return std::get<0>(GetParam()); }
  int ranks() const { return std::get<1>(GetParam()); }
  std::vector<std::string> onRanks(const Body &body) {
    return test::onRanks(ranks(), connector(kind(), ranks()), body);
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

  /// In both kinds of memory, for all dtypes and counts.
  template <typename Check> void forAll(Check check) {
    everywhere([&](Communicator &c) {
      bool good = true;
      for (bool inArena : {false, true}) {
        Memory memory(c, inArena);
        for (plan::DType dtype : dtypes)
          for (int64_t count : counts) {
            memory.clear();
            good = check(c, memory, dtype, count) && good;
          }
        c.barrier();
      }
      return good;
    });
  }
};

TEST_P(Conformance, AllGather) {
  forAll(
      [&](Communicator &c, Memory &memory, plan::DType dtype, int64_t count) {
        std::vector<at::Tensor> all;
        for (int r = 0; r < ranks(); ++r)
          all.push_back(contribution(r, count, dtype));
        at::Tensor expected = at::cat(all);
        at::Tensor from = memory.put(all[c.rank()], dtype);
        at::Tensor actual = memory.empty(count * ranks(), dtype).zero_();
        c.allGather(from.const_data_ptr(), actual.data_ptr(), count, dtype);
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
  forAll(
      [&](Communicator &c, Memory &memory, plan::DType dtype, int64_t count) {
        bool good = true;
        for (double divisor : {1.0, 2.0, 3.0}) {
          bool rough = isFloating(dtype);
          if (divisor != 1 && !isFloating(dtype))
            continue;
          memory.clear();
          at::Tensor sum =
              orderedSum(ranks(), count * ranks(), dtype, rough, divisor);
          at::Tensor expected = sum.narrow(0, c.rank() * count, count);
          at::Tensor from = memory.put(
              contribution(c.rank(), count * ranks(), dtype, rough), dtype);
          at::Tensor actual = memory.empty(count, dtype).zero_();
          c.reduceScatter(from.const_data_ptr(), actual.data_ptr(), count,
                          dtype, divisor);
          good = good && at::equal(actual, expected);
          at::Tensor mine = from.narrow(0, c.rank() * count, count);
          c.reduceScatter(from.const_data_ptr(), mine.data_ptr(), count, dtype,
                          divisor);
          good = good && at::equal(mine, expected);
        }
        return good;
      });
}

TEST_P(Conformance, AllReduce) {
  forAll([&](Communicator &c, Memory &memory, plan::DType dtype,
             int64_t count) {
    bool rough = isFloating(dtype);
    double divisor = isFloating(dtype) ? ranks() : 1;
    at::Tensor expected = orderedSum(ranks(), count, dtype, rough, divisor);
    at::Tensor from =
        memory.put(contribution(c.rank(), count, dtype, rough), dtype);
    at::Tensor actual = memory.empty(count, dtype).zero_();
    c.allReduce(from.const_data_ptr(), actual.data_ptr(), count, dtype,
                divisor);
    bool good = at::equal(actual, expected);
    c.allReduce(from.const_data_ptr(), from.data_ptr(), count, dtype, divisor);
    return good && at::equal(from, expected);
  });
}

TEST_P(Conformance, BroadcastAndBarrier) {
  forAll(
      [&](Communicator &c, Memory &memory, plan::DType dtype, int64_t count) {
        bool good = true;
        for (int root = 0; root < ranks(); ++root) {
          at::Tensor buffer =
              memory.put(contribution(c.rank(), count, dtype), dtype);
          c.broadcast(buffer.data_ptr(), count, dtype, root);
          good = good && at::equal(buffer, contribution(root, count, dtype));
          c.barrier();
        }
        return good;
      });
}

TEST_P(Conformance, SomeRanksMemoryIsNotShared) {
  everywhere([&](Communicator &c) {
    Memory arena(c, true), other(c, false);
    Memory &memory = c.rank() == 0 ? arena : other;
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t count = 100'000;
    at::Tensor from =
        memory.put(contribution(c.rank(), count * ranks(), dtype, true), dtype);
    at::Tensor actual = memory.empty(count, dtype);
    c.reduceScatter(from.const_data_ptr(), actual.data_ptr(), count, dtype);
    return at::equal(actual, orderedSum(ranks(), count * ranks(), dtype, true)
                                 .narrow(0, c.rank() * count, count));
  });
}

TEST_P(Conformance, ChannelsDoNotWaitForEachOther) {
  everywhere([&](Communicator &c) {
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t count = 40'000;
    bool good = true;
    for (bool inArena : {false, true}) {
      Memory memory(c, inArena);
      at::Tensor whole =
          memory.put(contribution(c.rank(), count * ranks(), dtype), dtype);
      std::vector<at::Tensor> to;
      std::vector<uint64_t> tickets;
      for (unsigned i = 0; i < 6; ++i) {
        bool gather = i % 2 == 0;
        to.push_back(memory.empty(gather ? count * ranks() : count, dtype));
        tickets.push_back(c.start(
            {gather ? plan::CollectiveKind::AllGather
                    : plan::CollectiveKind::ReduceScatter,
             whole.const_data_ptr(), to.back().data_ptr(), count, dtype,
             /*divisor=*/gather ? 1.0 : 2.0, /*channel=*/gather ? 0u : 1u}));
      }
      // Each channel in its own order.
      for (int i : {1, 3, 0, 2, 4, 5})
        c.finish(tickets[i]);
      std::vector<at::Tensor> all;
      for (int r = 0; r < ranks(); ++r)
        all.push_back(
            contribution(r, count * ranks(), dtype).narrow(0, 0, count));
      at::Tensor sum = orderedSum(ranks(), count * ranks(), dtype, false, 2)
                           .narrow(0, c.rank() * count, count);
      for (int i = 0; i < 6; ++i)
        good = good && at::equal(to[i], i % 2 == 0 ? at::cat(all) : sum);
      c.barrier();
    }
    return good;
  });
}

TEST_P(Conformance, AChannelMayHaveAThread) {
  everywhere([&](Communicator &c) {
    Memory memory(c, true);
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t count = 5'000, rounds = 200;
    std::atomic<bool> good{true};
    auto reduceOn = [&](unsigned channel, at::Tensor from, at::Tensor to) {
      at::Tensor expected = orderedSum(ranks(), count * ranks(), dtype, true)
                                .narrow(0, c.rank() * count, count);
      for (int i = 0; i < rounds; ++i) {
        to.zero_();
        c.finish(
            c.start({plan::CollectiveKind::ReduceScatter, from.const_data_ptr(),
                     to.data_ptr(), count, dtype, 1, channel}));
        if (!at::equal(to, expected))
          good = false;
      }
    };
    std::vector<at::Tensor> from, to;
    for (int i = 0; i < 2; ++i) {
      from.push_back(memory.put(
          contribution(c.rank(), count * ranks(), dtype, true), dtype));
      to.push_back(memory.empty(count, dtype));
    }
    std::thread other([&] { reduceOn(1, from[1], to[1]); });
    reduceOn(0, from[0], to[0]);
    other.join();
    c.barrier();
    return good.load();
  });
}

/// A finished transfer's source may be overwritten at once, however late the
/// other ranks come to finish theirs.
TEST_P(Conformance, SourcesAreReadBeforeFinishReturns) {
  everywhere([&](Communicator &c) {
    Memory memory(c, true);
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t count = 1'000;
    at::Tensor from = memory.empty(count * ranks(), dtype);
    at::Tensor sum = memory.empty(count, dtype);
    at::Tensor all = memory.empty(count * ranks(), dtype);
    for (int i = 0; i < 300; ++i) {
      from.fill_(i + c.rank());
      uint64_t reduce =
          c.start({plan::CollectiveKind::ReduceScatter, from.const_data_ptr(),
                   sum.data_ptr(), count, dtype, 1, 1});
      uint64_t gather =
          c.start({plan::CollectiveKind::AllGather, from.const_data_ptr(),
                   all.data_ptr(), count, dtype});
      if (i % 50 == c.rank())
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      c.finish(reduce);
      c.finish(gather);
      from.fill_(-1e6);
      if (!(sum == ranks() * i + ranks() * (ranks() - 1) / 2)
               .all()
               .item<bool>())
        return false;
      for (int r = 0; r < ranks(); ++r)
        if (!(all.narrow(0, r * count, count) == i + r).all().item<bool>())
          return false;
    }
    c.barrier();
    return true;
  });
}

/// Two states of a piece of `bytes` each, shown one after the other.
TEST_P(Conformance, WindowsShowAllRanksMemory) {
  everywhere([&](Communicator &c) {
    uint64_t page = sysconf(_SC_PAGESIZE);
    bool good = true;
    for (uint64_t bytes : {page, 3 * page, uint64_t{1000}}) {
      for (uint64_t guard : {0, 64}) {
        ArenaLayout layout;
        layout.guard = guard;
        layout.arenaBytes = 8 * page;
        layout.windowBytes = 2 * bytes * ranks();
        layout.window = {{page, 0, bytes}, {4 * page, bytes * ranks(), bytes}};
        auto memory = c.allocate(layout);
        if (bytes % page != 0 && memory->mapped())
          good = false;
        for (int round = 1; round < 4; ++round)
          for (const WindowPart &part : layout.window) {
            std::memset(memory->arena() + part.source, round * 10 + c.rank(),
                        bytes);
            c.finish(c.start({plan::CollectiveKind::AllGather,
                              memory->arena() + part.source,
                              memory->window() + part.destination, bytes,
                              plan::DType::UInt8, 1, 0, /*mapped=*/true}));
            for (int r = 0; r < ranks(); ++r)
              for (uint64_t i = 0; i < bytes; ++i)
                good = good &&
                       memory->window()[part.destination + r * bytes + i] ==
                           round * 10 + r;
            // All have read before one writes again.
            c.barrier();
          }
        good = good && memory->guardsIntact();
        if (guard) {
          memory->arena()[-1] = 0;
          good = good && !memory->guardsIntact();
        }
        c.barrier();
      }
    }
    return good;
  });
}

TEST_P(Conformance, RankThatFailsWakesTheOthers) {
  if (ranks() == 1)
    return;
  std::vector<std::string> errors = onRanks([&](Communicator &c) {
    c.barrier();
    if (c.rank() == 1) {
      // Some of the others sleep by then.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      throw std::runtime_error("rank 1 has had enough");
    }
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

TEST_P(Conformance, WhatCannotBeReducedIsRefused) {
  everywhere([&](Communicator &c) {
    bool flag = true;
    EXPECT_THROW(c.allReduce(&flag, &flag, 1, plan::DType::Bool),
                 std::invalid_argument);
    int64_t n = 1;
    EXPECT_THROW(c.allReduce(&n, &n, 1, plan::DType::Int64, 2),
                 std::invalid_argument);
    c.allReduce(&n, &n, 1, plan::DType::Int64);
    return n == ranks();
  });
}

INSTANTIATE_TEST_SUITE_P(
    All, Conformance,
    testing::Combine(testing::Values(Kind::SharedMemory, Kind::Gloo,
                                     Kind::Throttled),
                     testing::Range(1, 6)),
    [](const auto &info) {
      return kindNames[static_cast<int>(std::get<0>(info.param))] +
             std::to_string(std::get<1>(info.param));
    });

// Tests that every communicator carries many transfers at once, each channel in
// its own order, and that a rank that fails wakes the others.
#include "Conformance.h"

#include <deque>
#include <random>
#include <unistd.h>

using namespace fsdp;
using namespace fsdp::test;

class Asynchrony : public Conformance {};

/// Ranks finish in the same order; whether the channels' turns are the same as
/// in the starts, or each other's, is up to them.
TEST_P(Asynchrony, ManyAreInFlightOnBothChannels) {
  everywhere([&](Communicator &c) {
    constexpr auto dtype = plan::DType::Float32;
    constexpr int transfers = 200;
    bool good = true;
    for (bool inArena : {false, true}) {
      Memory memory(c, inArena);
      std::minstd_rand random(17);
      struct InFlight {
        uint64_t ticket;
        at::Tensor source, result, expected;
      };
      std::array<std::deque<InFlight>, numChannels> channels;
      auto finishOne = [&](std::deque<InFlight> &channel) {
        c.finish(channel.front().ticket);
        good =
            good && at::equal(channel.front().result, channel.front().expected);
        channel.pop_front();
      };
      for (int i = 0; i < transfers; ++i) {
        unsigned channel = random() % numChannels;
        bool gathers = random() % 2;
        int64_t count = random() % 300, all = count * ranks();
        at::Tensor from = memory.put(
            contribution(c.rank() + i, gathers ? count : all, dtype), dtype);
        at::Tensor to = memory.empty(gathers ? all : count, dtype);
        std::vector<at::Tensor> pieces;
        at::Tensor sum = at::zeros({all});
        for (int r = 0; r < ranks(); ++r)
          if (gathers)
            pieces.push_back(contribution(r + i, count, dtype));
          else
            sum = r ? sum + contribution(r + i, all, dtype)
                    : contribution(i, all, dtype);
        at::Tensor expected =
            gathers ? at::cat(pieces)
                    : at::div(sum, 3.0).narrow(0, c.rank() * count, count);
        uint64_t ticket =
            c.start({gathers ? plan::CollectiveKind::AllGather
                             : plan::CollectiveKind::ReduceScatter,
                     from.const_data_ptr(), to.data_ptr(),
                     static_cast<size_t>(count), dtype,
                     /*divisor=*/gathers ? 1.0 : 3.0, channel});
        channels[channel].push_back({ticket, from, to, expected});
        std::deque<InFlight> &other = channels[random() % numChannels];
        if (other.size() > random() % 100)
          finishOne(other);
      }
      for (auto &channel : channels)
        while (!channel.empty())
          finishOne(channel);
      c.barrier();
    }
    return good;
  });
}

TEST_P(Asynchrony, AChannelMayHaveAThread) {
  everywhere([&](Communicator &c) {
    Memory memory(c, true);
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t count = 5'000, rounds = 200;
    std::atomic<bool> good{true};
    auto reduceOn = [&](unsigned channel, at::Tensor from, at::Tensor to) {
      at::Tensor expected = orderedSum(ranks(), count * ranks(), dtype)
                                .narrow(0, c.rank() * count, count);
      for (int i = 0; i < rounds; ++i) {
        to.zero_();
        uint64_t ticket =
            c.start({plan::CollectiveKind::ReduceScatter, from.const_data_ptr(),
                     to.data_ptr(), count, dtype, 1, channel});
        c.finish(ticket);
        if (c.channelOf(ticket) != channel || !at::equal(to, expected))
          good = false;
      }
    };
    std::vector<at::Tensor> from, to;
    for (int i = 0; i < 2; ++i) {
      from.push_back(
          memory.put(contribution(c.rank(), count * ranks(), dtype), dtype));
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
TEST_P(Asynchrony, SourcesAreReadBeforeFinishReturns) {
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

/// Ranks that are threads of one process start their first transfers at once.
TEST_P(Asynchrony, FirstTransfersMayStartTogether) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> ready{0};
    everywhere([&](Communicator &c) {
      Memory memory(c, true);
      at::Tensor from =
          memory.put(contribution(c.rank(), 16, plan::DType::Float32),
                     plan::DType::Float32);
      std::vector<at::Tensor> results;
      for (unsigned channel = 0; channel < numChannels; ++channel)
        results.push_back(memory.empty(16 * ranks(), plan::DType::Float32));
      for (++ready; ready < ranks();)
        ;
      std::vector<uint64_t> tickets;
      for (unsigned channel = 0; channel < numChannels; ++channel)
        tickets.push_back(
            c.start({plan::CollectiveKind::AllGather, from.const_data_ptr(),
                     results[channel].data_ptr(), 16, plan::DType::Float32, 1,
                     channel}));
      for (uint64_t ticket : tickets)
        c.finish(ticket);
      c.barrier();
      at::Tensor expected = concatenation(ranks(), 16, plan::DType::Float32);
      return at::equal(results[0], expected) && at::equal(results[1], expected);
    });
  }
}

/// Two states of a piece of `bytes` each, shown one after the other.
TEST_P(Asynchrony, WindowsShowAllRanksMemory) {
  everywhere([&](Communicator &c) {
    uint64_t page = sysconf(_SC_PAGESIZE);
    bool good = true;
    for (uint64_t bytes : {page, 3 * page, uint64_t{1000}}) {
      for (uint64_t guard : {0, 64}) {
        ArenaLayout layout;
        layout.guard = guard;
        layout.arenaBytes = 8 * page;
        layout.windowBytes = 2 * bytes * ranks();
        plan::RankGroup all{0, 1, static_cast<uint32_t>(ranks())};
        layout.window = {{page, 0, bytes, all},
                         {4 * page, bytes * ranks(), bytes, all}};
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

TEST_P(Asynchrony, RankThatFailsWakesTheOthers) {
  if (ranks() == 1)
    return;
  std::vector<std::string> errors = onRanks([&](Communicator &c) {
    c.barrier();
    if (c.rank() == 1) {
      // Some of the others sleep by then.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      throw Error(E::Unexpected, "rank 1 has had enough");
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

/// While threads of its own start transfers, and the first ones of new groups.
TEST_P(Asynchrony, AnyThreadMayAbort) {
  if (ranks() == 1)
    return;
  std::atomic<int> ended{0};
  std::vector<std::string> errors = onRanks([&](Communicator &c) {
    Memory memory(c, /*inArena=*/true);
    std::vector<std::thread> threads;
    std::atomic<int> started{0};
    for (unsigned channel = 0; channel < numChannels; ++channel) {
      at::Tensor x = memory.empty(64, plan::DType::Float32);
      x.zero_();
      threads.emplace_back([&, channel, x] {
        try {
          for (uint32_t i = 0;; ++i) {
            plan::RankGroup all{0, 1, static_cast<uint32_t>(ranks())};
            plan::RankGroup some{0, 1, 2};
            if (c.rank() >= 2)
              some = {static_cast<uint32_t>(c.rank()), 1, 1};
            c.finish(
                c.start({plan::CollectiveKind::AllReduce, x.const_data_ptr(),
                         x.data_ptr(), 64, plan::DType::Float32, 1, channel,
                         false, plan::ReduceOp::Sum, i % 2 ? some : all}));
            ++started;
          }
        } catch (const std::exception &) {
          ++ended; // a PeerFailure; another kind has ended the loop as well
        }
      });
    }
    while (c.rank() == 1 && started < 20)
      std::this_thread::yield();
    if (c.rank() == 1)
      c.abort("it has had enough");
    for (std::thread &thread : threads)
      thread.join();
  });
  EXPECT_EQ(ended, ranks() * static_cast<int>(numChannels));
  for (const std::string &error : errors)
    EXPECT_EQ(error, "");
}

/// One of the words is heard, and not a mixture of them.
TEST_P(Asynchrony, SeveralThreadsMayAbort) {
  if (ranks() == 1)
    return;
  const std::string one(400, '1'), other(400, '2');
  std::vector<std::string> errors = onRanks([&](Communicator &c) {
    c.barrier();
    if (c.rank() == 1) {
      std::atomic<int> ready{0};
      auto abort = [&](const std::string &word) {
        for (++ready; ready < 2;)
          ;
        c.abort(word);
      };
      std::thread thread([&] { abort(one); });
      abort(other);
      thread.join();
    } else {
      c.barrier();
    }
  });
  EXPECT_TRUE(errors[0] == "rank 1 failed: " + one ||
              errors[0] == "rank 1 failed: " + other)
      << errors[0];
}

INSTANTIATE_TEST_SUITE_P(All, Asynchrony,
                         testing::ValuesIn(everyCommunicator()), nameOf);

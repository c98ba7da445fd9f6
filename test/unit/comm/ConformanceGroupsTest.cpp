// Tests that every communicator moves and adds within groups of its ranks, as
// the dimensions of a mesh have them.
#include "Conformance.h"

using namespace fsdp;
using namespace fsdp::test;

namespace {

/// Six ranks, as two rows of three.
constexpr int rows = 2, columns = 3;

std::vector<Case> communicators() {
  std::vector<Case> all;
  for (bool gloo : {false, true})
    for (bool throttled : {false, true})
      all.push_back({gloo, throttled, rows * columns});
  return all;
}

/// The groups of a rank: its row, its column, and all.
std::vector<plan::RankGroup> groupsOf(const Communicator &c) {
  uint32_t rank = c.rank(), row = rank / columns, column = rank % columns;
  return {{row * columns, 1, columns},
          {column, columns, rows},
          {0, 1, rows * columns}};
}

/// The sum of the members' contributions, in their order.
at::Tensor sumOf(plan::RankGroup group, int64_t count, plan::DType dtype) {
  at::Tensor sum = contribution(group[0], count, dtype);
  for (uint32_t i = 1; i < group.size; ++i)
    sum = at::add(sum, contribution(group[i], count, dtype));
  return sum;
}

class Groups : public Conformance {
protected:
  /// Every group in turn on every channel, in memory of both kinds; several
  /// times, as later transfers use what earlier ones have made and freed.
  template <typename Check> void forAllGroups(Check check) {
    everywhere([&](Communicator &c) {
      bool good = true;
      for (bool inArena : {false, true}) {
        Memory memory(c, inArena);
        for (int round = 0; round < 3; ++round)
          for (unsigned channel = 0; channel < numChannels; ++channel)
            for (plan::RankGroup group : groupsOf(c)) {
              memory.clear();
              Transfer transfer;
              transfer.dtype = plan::DType::Float32;
              transfer.count = 30'011;
              transfer.channel = channel;
              transfer.group = group;
              good = check(c, memory, transfer, group) && good;
            }
        c.barrier();
      }
      return good;
    });
  }
};

TEST_P(Groups, AllGather) {
  forAllGroups([](Communicator &c, Memory &memory, Transfer transfer,
                  plan::RankGroup group) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    std::vector<at::Tensor> parts;
    for (uint32_t i = 0; i < group.size; ++i)
      parts.push_back(contribution(group[i], count, dtype));
    at::Tensor from = memory.put(contribution(c.rank(), count, dtype), dtype);
    at::Tensor actual = memory.empty(count * group.size, dtype).zero_();
    transfer.kind = plan::CollectiveKind::AllGather;
    transfer.source = from.const_data_ptr();
    transfer.destination = actual.data_ptr();
    c.finish(c.start(transfer));
    return at::equal(actual, at::cat(parts));
  });
}

TEST_P(Groups, ReduceScatter) {
  forAllGroups([](Communicator &c, Memory &memory, Transfer transfer,
                  plan::RankGroup group) {
    int64_t count = transfer.count, all = count * group.size;
    auto dtype = transfer.dtype;
    at::Tensor from = memory.put(contribution(c.rank(), all, dtype), dtype);
    at::Tensor actual = memory.empty(count, dtype).zero_();
    transfer.kind = plan::CollectiveKind::ReduceScatter;
    transfer.source = from.const_data_ptr();
    transfer.destination = actual.data_ptr();
    c.finish(c.start(transfer));
    return at::equal(actual,
                     sumOf(group, all, dtype)
                         .narrow(0, group.indexOf(c.rank()) * count, count));
  });
}

TEST_P(Groups, AllToAll) {
  forAllGroups([](Communicator &c, Memory &memory, Transfer transfer,
                  plan::RankGroup group) {
    int64_t count = transfer.count, all = count * group.size;
    std::vector<at::Tensor> mine;
    for (uint32_t i = 0; i < group.size; ++i)
      mine.push_back(contribution(group[i], all, transfer.dtype)
                         .narrow(0, group.indexOf(c.rank()) * count, count));
    at::Tensor from =
        memory.put(contribution(c.rank(), all, transfer.dtype), transfer.dtype);
    at::Tensor actual = memory.empty(all, transfer.dtype).zero_();
    transfer.kind = plan::CollectiveKind::AllToAll;
    transfer.source = from.const_data_ptr();
    transfer.destination = actual.data_ptr();
    c.finish(c.start(transfer));
    return at::equal(actual, at::cat(mine));
  });
}

TEST_P(Groups, AllReduce) {
  forAllGroups([](Communicator &c, Memory &memory, Transfer transfer,
                  plan::RankGroup group) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    at::Tensor from = memory.put(contribution(c.rank(), count, dtype), dtype);
    at::Tensor actual = memory.empty(count, dtype).zero_();
    transfer.kind = plan::CollectiveKind::AllReduce;
    transfer.source = from.const_data_ptr();
    transfer.destination = actual.data_ptr();
    transfer.divisor = rows * columns;
    c.finish(c.start(transfer));
    return at::equal(actual,
                     at::div(sumOf(group, count, dtype), transfer.divisor));
  });
}

/// The others of a row may be hundreds of transfers of their columns ahead of a
/// rank that has started the row's and comes late to finish it.
TEST_P(Groups, ALateRankMayBeFarBehind) {
  std::atomic<bool> isAhead{false};
  everywhere([&](Communicator &c) {
    Memory memory(c, /*inArena=*/true);
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t ofRow = 1'000, ofColumn = 10;
    plan::RankGroup row = groupsOf(c)[0], column = groupsOf(c)[1];
    at::Tensor from = memory.put(contribution(c.rank(), ofRow, dtype), dtype);
    at::Tensor inRow = memory.empty(ofRow * row.size, dtype).zero_();
    at::Tensor inColumn = memory.empty(ofColumn * column.size, dtype);
    auto gather = [&](at::Tensor to, int64_t count, plan::RankGroup group) {
      Transfer transfer{plan::CollectiveKind::AllGather, from.const_data_ptr(),
                        to.data_ptr(), size_t(count), dtype};
      transfer.group = group;
      return c.start(transfer);
    };
    uint64_t ticket = gather(inRow, ofRow, row);
    while (c.rank() == 0 && !isAhead)
      c.check(); // whether another one has failed
    c.finish(ticket);
    for (int i = 0; i < 600; ++i)
      c.finish(gather(inColumn, ofColumn, column));
    if (c.rank() == 1)
      isAhead = true;
    std::vector<at::Tensor> parts;
    for (uint32_t i = 0; i < row.size; ++i)
      parts.push_back(contribution(row[i], ofRow, dtype));
    c.barrier();
    return at::equal(inRow, at::cat(parts));
  });
}

/// A window shows the ranks of one row.
TEST_P(Groups, Window) {
  everywhere([](Communicator &c) {
    uint64_t bytes = sysconf(_SC_PAGESIZE);
    plan::RankGroup row = groupsOf(c)[0];
    ArenaLayout layout;
    layout.arenaBytes = bytes;
    layout.windowBytes = bytes * row.size;
    layout.window = {{0, 0, bytes, row}};
    auto memory = c.allocate(layout);
    std::memset(memory->arena(), 10 + c.rank(), bytes);
    Transfer transfer{plan::CollectiveKind::AllGather, memory->arena(),
                      memory->window(), bytes, plan::DType::UInt8};
    transfer.mapped = memory->mapped();
    transfer.group = row;
    c.finish(c.start(transfer));
    bool good = true;
    for (uint32_t i = 0; i < row.size; ++i)
      for (uint64_t at : {uint64_t{0}, bytes - 1})
        good = good && memory->window()[i * bytes + at] ==
                           static_cast<char>(10 + row[i]);
    c.barrier();
    return good;
  });
}

INSTANTIATE_TEST_SUITE_P(All, Groups, testing::ValuesIn(communicators()),
                         nameOf);

} // namespace

// Tests that every device communicator's transfers stand in the order of their
// streams, in groups and side by side, and can be ended.
#include "DeviceConformance.h"

#include <cstring>

using namespace fsdp;
using namespace fsdp::test;

namespace {

using Kind = plan::CollectiveKind;
constexpr auto dtype = plan::DType::Float32;

class DeviceOrder : public DeviceConformance {};

/// The groups of a rank of two rows: its row, its column, and all.
std::vector<plan::RankGroup> groupsOf(uint32_t rank, uint32_t ranks) {
  uint32_t columns = ranks / 2, row = rank / columns, column = rank % columns;
  return {{row * columns, 1, columns}, {column, columns, 2}, {0, 1, ranks}};
}

std::vector<DeviceCase> inTwoRows() {
  std::vector<DeviceCase> all;
  for (DeviceCase each : everyDeviceCommunicator())
    if (each.ranks == 2) {
      each.ranks = 4;
      each.gpus *= 2;
      all.push_back(each);
    }
  return all;
}

class DeviceGroups : public DeviceConformance {};

} // namespace

/// Copies around transfers, without the host in between.
TEST_P(DeviceOrder, WhatIsInFrontOfItIsReadAndWhatIsBehindItIsNot) {
  everywhere([&](DeviceRank &rank) {
    constexpr int64_t count = 3000;
    constexpr uint64_t bytes = count * sizeof(float);
    constexpr int steps = 20;
    DeviceTensors tensors(rank, true);
    char *from = tensors.zeros(count, dtype),
         *to = tensors.zeros(count * ranks(), dtype);
    DeviceMemory values = rank.device->allocatePinned(bytes * steps);
    DeviceMemory seen = rank.device->allocatePinned(bytes * ranks() * steps);
    Transfer transfer{Kind::AllGather, from, to, count, dtype};
    rank.communicator->prepare(transfer);
    for (int step = 0; step < steps; ++step) {
      char *now = values.data() + step * bytes;
      std::memcpy(now, numbers(rank.rank + step, count, dtype).const_data_ptr(),
                  bytes);
      rank.device->copy(1, from, now, bytes);
      rank.communicator->launch(transfer, 1);
      rank.device->fill(1, from, 0xFF, bytes); // others have read it
      rank.device->record(1, 0);
      rank.device->wait(2, 0);
      rank.device->copy(2, seen.data() + step * bytes * ranks(), to,
                        bytes * ranks());
      rank.device->record(2, 1);
      rank.device->wait(1, 1);
    }
    rank.device->drain();
    for (int step = 0; step < steps; ++step) {
      plan::RankGroup those = {static_cast<uint32_t>(step), 1,
                               static_cast<uint32_t>(ranks())};
      at::Tensor expected = concatenationOf(those, count, dtype);
      EXPECT_EQ(std::memcmp(seen.data() + step * bytes * ranks(),
                            expected.const_data_ptr(), bytes * ranks()),
                0)
          << "step " << step;
    }
  });
}

/// Sums on one stream and gathers on another, which do not wait for each other.
TEST_P(DeviceOrder, StreamsStandSideBySide) {
  everywhere([&](DeviceRank &rank) {
    constexpr int64_t count = 500;
    constexpr int transfers = 30;
    int64_t all = count * ranks();
    DeviceTensors tensors(rank, false);
    Transfer transfer;
    transfer.count = count;
    transfer.dtype = dtype;
    std::vector<std::pair<char *, at::Tensor>> results;
    for (int i = 0; i < transfers; ++i) {
      unsigned stream = 1 + i % 2;
      char *to = tensors.zeros(all, dtype);
      transfer.destination = to;
      transfer.kind = i % 3 ? Kind::AllReduce : Kind::AllGather;
      transfer.divisor = i % 3 == 1 ? ranks() : 1;
      transfer.source = tensors.put(numbers(rank.rank, count, dtype), dtype);
      launch(rank, transfer, stream);
      results.emplace_back(
          to, transfer.kind == Kind::AllGather
                  ? concatenationOf(everybody(), count, dtype)
                  : sumOf(everybody(), count, dtype, transfer.divisor));
    }
    for (auto &[to, expected] : results)
      EXPECT_TRUE(
          at::equal(tensors.get(to, expected.numel(), dtype), expected));
  });
}

TEST_P(DeviceGroups, MoveAndAddWithinThemselves) {
  everywhere([&](DeviceRank &rank) {
    DeviceTensors tensors(rank, true);
    constexpr int64_t count = 1001;
    for (int round = 0; round < 3; ++round)
      for (plan::RankGroup group : groupsOf(rank.rank, ranks())) {
        tensors.clear();
        int64_t all = count * group.size;
        Transfer transfer;
        transfer.count = count;
        transfer.dtype = dtype;
        transfer.group = group;
        transfer.kind = Kind::AllGather;
        transfer.source = tensors.put(numbers(rank.rank, count, dtype), dtype);
        char *gathered = tensors.zeros(all, dtype);
        transfer.destination = gathered;
        launch(rank, transfer, 1);
        transfer.kind = Kind::AllReduce;
        transfer.divisor = ranks();
        char *sum = tensors.zeros(count, dtype);
        transfer.destination = sum;
        launch(rank, transfer, 1);
        transfer.kind = Kind::ReduceScatter;
        transfer.source = gathered;
        char *part = tensors.zeros(count, dtype);
        transfer.destination = part;
        launch(rank, transfer, 1);

        EXPECT_TRUE(at::equal(tensors.get(gathered, all, dtype),
                              concatenationOf(group, count, dtype)));
        EXPECT_TRUE(at::equal(tensors.get(sum, count, dtype),
                              sumOf(group, count, dtype, transfer.divisor)));
        // All have gathered the same: it is added as often as they are.
        at::Tensor mine = numbers(rank.rank, count, dtype), expected = mine;
        for (uint32_t i = 1; i < group.size; ++i)
          expected = at::add(expected, mine);
        EXPECT_TRUE(at::equal(tensors.get(part, count, dtype),
                              at::div(expected, transfer.divisor)));
      }
  });
}

TEST_P(DeviceOrder, TransfersAreCapturedOrItIsSaidWhyNot) {
  everywhere([&](DeviceRank &rank) {
    constexpr int64_t count = 100;
    std::string why = rank.communicator->whyNotCaptured();
    if (!why.empty()) {
      EXPECT_EQ(why.find('\n'), std::string::npos);
      return;
    }
    DeviceTensors tensors(rank, true);
    char *sum = tensors.zeros(count, dtype);
    char *from = tensors.zeros(count, dtype);
    Transfer transfer{Kind::AllReduce, from, sum, count, dtype};
    rank.communicator->prepare(transfer);
    rank.device->beginCapture();
    rank.device->record(0, 0);
    rank.device->wait(1, 0);
    rank.communicator->launch(transfer, 1);
    rank.device->record(1, 1);
    rank.device->wait(0, 1);
    auto graph = rank.device->endCapture();
    for (int step = 0; step < 3; ++step) {
      at::Tensor now = numbers(rank.rank + step, count, dtype);
      rank.device->copy(0, from, now.const_data_ptr(), now.nbytes());
      graph->launch();
      plan::RankGroup those = {static_cast<uint32_t>(step), 1,
                               static_cast<uint32_t>(ranks())};
      EXPECT_TRUE(at::equal(tensors.get(sum, count, dtype),
                            sumOf(those, count, dtype)));
    }
  });
}

INSTANTIATE_TEST_SUITE_P(All, DeviceOrder,
                         testing::ValuesIn(everyDeviceCommunicator()),
                         nameOfDevice);
INSTANTIATE_TEST_SUITE_P(All, DeviceGroups, testing::ValuesIn(inTwoRows()),
                         nameOfDevice);

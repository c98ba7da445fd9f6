// Tests that every device communicator moves and adds the same numbers, in
// every dtype and size, for all ranks and within groups.
#include "DeviceConformance.h"

using namespace fsdp;
using namespace fsdp::test;

namespace {

using Kind = plan::CollectiveKind;

class DeviceValues : public DeviceConformance {
protected:
  /// In both kinds of memory, for all dtypes and counts.
  template <typename Check> void forAll(Check check) {
    everywhere([&](DeviceRank &rank) {
      for (bool registered : {false, true}) {
        DeviceTensors tensors(rank, registered);
        for (plan::DType dtype : plan::EnumValuesDType())
          for (int64_t count : {0, 1, 1027}) {
            tensors.clear();
            Transfer transfer;
            transfer.dtype = dtype;
            transfer.count = count;
            check(rank, tensors, transfer);
          }
      }
    });
  }
  template <typename Check> void forAllSums(Check check) {
    forAll([&](DeviceRank &rank, DeviceTensors &tensors, Transfer transfer) {
      if (!GetParam().reduces(transfer.dtype, plan::ReduceOp::Sum))
        return;
      for (double divisor : {1.0, 2.0, 3.0}) {
        if (divisor != 1 && !plan::isFloating(transfer.dtype))
          continue;
        tensors.clear();
        transfer.divisor = divisor;
        check(rank, tensors, transfer);
      }
    });
  }
};

std::string describe(const Transfer &transfer) {
  return std::to_string(transfer.count) + " x " +
         plan::dtypeName(transfer.dtype) + " / " +
         std::to_string(transfer.divisor);
}

} // namespace

TEST_P(DeviceValues, AllGather) {
  forAll([&](DeviceRank &rank, DeviceTensors &tensors, Transfer transfer) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    at::Tensor mine = numbers(rank.rank, count, dtype);
    at::Tensor expected = concatenationOf(everybody(), count, dtype);
    char *to = tensors.zeros(count * ranks(), dtype);
    transfer.kind = Kind::AllGather;
    transfer.source = tensors.put(mine, dtype);
    transfer.destination = to;
    launch(rank, transfer, 1);
    EXPECT_TRUE(sameBits(tensors.get(to, count * ranks(), dtype), expected))
        << describe(transfer);
    // In place.
    to = tensors.zeros(count * ranks(), dtype);
    uint64_t bytes = count * plan::dtypeBytes(dtype);
    rank.device->copy(1, to + rank.rank * bytes, transfer.source, bytes);
    transfer.source = to + rank.rank * bytes;
    transfer.destination = to;
    launch(rank, transfer, 1);
    EXPECT_TRUE(sameBits(tensors.get(to, count * ranks(), dtype), expected))
        << describe(transfer) << " in place";
  });
}

TEST_P(DeviceValues, ReduceScatter) {
  forAllSums([&](DeviceRank &rank, DeviceTensors &tensors, Transfer transfer) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    int64_t all = count * ranks();
    at::Tensor expected = sumOf(everybody(), all, dtype, transfer.divisor)
                              .narrow(0, rank.rank * count, count);
    char *from = tensors.put(numbers(rank.rank, all, dtype), dtype);
    char *to = tensors.zeros(count, dtype);
    transfer.kind = Kind::ReduceScatter;
    transfer.source = from;
    transfer.destination = to;
    launch(rank, transfer, 2);
    EXPECT_TRUE(at::equal(tensors.get(to, count, dtype), expected))
        << describe(transfer);
    // In place.
    to = from + rank.rank * count * plan::dtypeBytes(dtype);
    transfer.destination = to;
    launch(rank, transfer, 2);
    EXPECT_TRUE(at::equal(tensors.get(to, count, dtype), expected))
        << describe(transfer) << " in place";
  });
}

TEST_P(DeviceValues, AllToAll) {
  forAll([&](DeviceRank &rank, DeviceTensors &tensors, Transfer transfer) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    int64_t all = count * ranks();
    std::vector<at::Tensor> mine;
    for (int r = 0; r < ranks(); ++r)
      mine.push_back(
          numbers(r, all, dtype).narrow(0, rank.rank * count, count));
    char *to = tensors.zeros(all, dtype);
    transfer.kind = Kind::AllToAll;
    transfer.source = tensors.put(numbers(rank.rank, all, dtype), dtype);
    transfer.destination = to;
    launch(rank, transfer, 1);
    EXPECT_TRUE(sameBits(tensors.get(to, all, dtype), at::cat(mine)))
        << describe(transfer);
  });
}

TEST_P(DeviceValues, AllReduce) {
  forAllSums([&](DeviceRank &rank, DeviceTensors &tensors, Transfer transfer) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    at::Tensor expected = sumOf(everybody(), count, dtype, transfer.divisor);
    char *from = tensors.put(numbers(rank.rank, count, dtype), dtype);
    transfer.kind = Kind::AllReduce;
    transfer.source = from;
    for (char *to : {tensors.zeros(count, dtype), from}) { // then in place
      transfer.destination = to;
      launch(rank, transfer, 0);
      EXPECT_TRUE(at::equal(tensors.get(to, count, dtype), expected))
          << describe(transfer) << (to == from ? " in place" : "");
    }
  });
}

TEST_P(DeviceValues, AllReduceOfTheLargest) {
  forAll([&](DeviceRank &rank, DeviceTensors &tensors, Transfer transfer) {
    auto [dtype, count] = std::make_pair(transfer.dtype, transfer.count);
    if (!GetParam().reduces(dtype, plan::ReduceOp::Max))
      return;
    at::Tensor expected = numbers(0, count, dtype);
    for (int r = 1; r < ranks(); ++r)
      expected = at::maximum(expected, numbers(r, count, dtype));
    char *to = tensors.put(numbers(rank.rank, count, dtype), dtype);
    transfer.kind = Kind::AllReduce;
    transfer.op = plan::ReduceOp::Max;
    transfer.source = transfer.destination = to;
    launch(rank, transfer, 2);
    EXPECT_TRUE(at::equal(tensors.get(to, count, dtype), expected))
        << describe(transfer);
  });
}

TEST_P(DeviceValues, WhatCannotBeReducedIsRefused) {
  everywhere([&](DeviceRank &rank) {
    DeviceTensors tensors(rank, false);
    Transfer transfer;
    transfer.kind = Kind::AllReduce;
    transfer.source = transfer.destination =
        tensors.zeros(1, plan::DType::Int64);
    transfer.count = 1;
    transfer.dtype = plan::DType::Bool;
    EXPECT_THROW(rank.communicator->prepare(transfer), Error);
    transfer.dtype = plan::DType::Int64;
    transfer.divisor = 2;
    EXPECT_THROW(rank.communicator->prepare(transfer), Error);
    // And leaves no trace.
    transfer.divisor = 1;
    launch(rank, transfer, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(All, DeviceValues,
                         testing::ValuesIn(everyDeviceCommunicator()),
                         nameOfDevice);

// Tests what is particular to NCCL's numbers and channels.
#include "DeviceConformance.h"

#include <cmath>

using namespace fsdp;
using namespace fsdp::test;
using plan::DType;

namespace {

using Kind = plan::CollectiveKind;

class Nccl : public DeviceConformance {};

std::vector<DeviceCase> overNccl() {
  std::vector<DeviceCase> all;
  for (const DeviceCase &each : everyDeviceCommunicator())
    if (!each.ordered)
      all.push_back(each);
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, Nccl, testing::ValuesIn(overNccl()),
                         nameOfDevice);

constexpr int64_t length = 1027;

/// As orderedSum(), but that every number is multiplied by 1 / divisor first.
at::Tensor sumOfParts(int ranks, DType dtype, double divisor) {
  at::Tensor sum, factor = at::scalar_tensor(1 / divisor, toScalarType(dtype));
  for (int r = 0; r < ranks; ++r) {
    at::Tensor part = at::mul(contribution(r, length, dtype), factor);
    sum = r ? at::add(sum, part) : part;
  }
  return sum;
}

/// What all ranks get of their numbers.
at::Tensor allReduced(DeviceRank &rank, const at::Tensor &numbers, DType dtype,
                      double divisor, plan::ReduceOp op = plan::ReduceOp::Sum) {
  DeviceTensors tensors(rank, true);
  char *at = tensors.put(numbers, dtype);
  Transfer transfer{Kind::AllReduce,         at,    at,
                    size_t(numbers.numel()), dtype, divisor};
  transfer.op = op;
  launch(rank, transfer, 1);
  return tensors.get(at, numbers.numel(), dtype);
}

} // namespace

TEST_P(Nccl, MultipliesByTheRoundedReciprocalBeforeItAdds) {
  everywhere([&](DeviceRank &rank) {
    for (DType dtype : {DType::Float16, DType::BFloat16, DType::Float32,
                        DType::Float64, DType::Complex64})
      for (double divisor : {3.0, 4.0, 0.7})
        EXPECT_TRUE(
            at::equal(allReduced(rank, contribution(rank.rank, length, dtype),
                                 dtype, divisor),
                      sumOfParts(ranks(), dtype, divisor)))
            << plan::dtypeName(dtype) << " / " << divisor;
  });
}

TEST_P(Nccl, DividesByAPowerOfTwoToTheBit) {
  everywhere([&](DeviceRank &rank) {
    for (DType dtype : {DType::BFloat16, DType::Float32, DType::Float64})
      EXPECT_TRUE(at::equal(
          allReduced(rank, contribution(rank.rank, length, dtype), dtype, 8),
          orderedSum(ranks(), length, dtype, 8)))
          << plan::dtypeName(dtype);
  });
}

/// NCCL's own maximum would drop the NaN of one rank.
TEST_P(Nccl, TheLargestNormIsNanWhereOneIs) {
  everywhere([&](DeviceRank &rank) {
    bool last = rank.rank == ranks() - 1;
    double nan = std::nan(""), infinity = INFINITY;
    for (DType dtype : {DType::Float32, DType::Float64}) {
      at::Tensor norms =
          at::tensor({rank.rank + 1.5, last ? nan : infinity, last ? -nan : 2.0,
                      0.0, last ? infinity : 3.0},
                     at::kDouble)
              .to(toScalarType(dtype));
      at::Tensor seen = allReduced(rank, norms, dtype, 1, plan::ReduceOp::Max)
                            .to(at::kDouble);
      EXPECT_EQ(seen[0].item<double>(), ranks() + 0.5);
      EXPECT_TRUE(std::isnan(seen[1].item<double>()));
      EXPECT_TRUE(std::isnan(seen[2].item<double>()));
      EXPECT_EQ(seen[3].item<double>(), 0);
      EXPECT_EQ(seen[4].item<double>(), infinity);
    }
  });
}

TEST_P(Nccl, WhatItCannotReduceIsRefusedBeforeItIsLaunched) {
  everywhere([&](DeviceRank &rank) {
    auto refused = [&](DType dtype, double divisor, plan::ReduceOp op) {
      Transfer wanted{Kind::AllReduce, nullptr, nullptr,
                      length,          dtype,   divisor};
      wanted.op = op;
      try {
        rank.communicator->prepare(wanted);
      } catch (const Error &error) {
        return std::string(error.what());
      }
      return std::string();
    };
    auto sum = plan::ReduceOp::Sum, max = plan::ReduceOp::Max;
    EXPECT_EQ(refused(DType::Int16, 1, sum),
              "NCCL cannot sum int16; convert it to float32 before");
    EXPECT_EQ(refused(DType::Int64, 2, sum),
              "NCCL cannot sum int64 and divide "
              "it; convert it to float32 before");
    EXPECT_EQ(refused(DType::BFloat16, 1, max),
              "NCCL cannot find the maximum of bfloat16; convert it to float32 "
              "before");
    EXPECT_NE(refused(DType::Complex64, 1, max), "");
    EXPECT_NE(refused(DType::Float32, 2, max), "");
    EXPECT_EQ(refused(DType::Float32, 2, sum), "");
  });
}

/// Two channels at once, as a step's layers have them, and both again with
/// every launch of a graph.
TEST_P(Nccl, ChannelsRunBesideEachOtherAlsoInAGraph) {
  everywhere([&](DeviceRank &rank) {
    constexpr DType dtype = DType::Float64;
    DeviceTensors tensors(rank, true);
    at::Tensor mine = contribution(rank.rank, length, dtype);
    char *part = tensors.put(mine, dtype), *sum = tensors.put(mine, dtype);
    char *all = tensors.zeros(length * ranks(), dtype);
    Transfer gather{Kind::AllGather, part, all, length, dtype};
    Transfer reduce{Kind::AllReduce, sum, sum, length, dtype, 2};
    gather.channel = plan::gatherChannel;
    reduce.channel = plan::reduceChannel;
    rank.communicator->prepare(gather);
    rank.communicator->prepare(reduce);
    auto launchAll = [&] {
      rank.device->record(0, 0);
      rank.device->wait(1, 0);
      rank.device->wait(2, 0);
      for (int times = 0; times < 3; ++times) {
        rank.communicator->launch(gather, 1);
        rank.communicator->launch(reduce, 2);
      }
      rank.device->record(1, 1);
      rank.device->record(2, 2);
      rank.device->wait(0, 1);
      rank.device->wait(0, 2);
    };
    at::Tensor expected;
    // The sum of the ranks' numbers, then of what all have the same of.
    auto check = [&] {
      for (int times = 0; times < 3; ++times) {
        at::Tensor before = expected;
        expected = before.defined() ? at::mul(before, 0.5)
                                    : sumOfParts(ranks(), dtype, 2);
        for (int r = 1; r < ranks() && before.defined(); ++r)
          expected = at::add(expected, at::mul(before, 0.5));
      }
      EXPECT_TRUE(at::equal(tensors.get(sum, length, dtype), expected));
      EXPECT_TRUE(at::equal(tensors.get(all, length * ranks(), dtype),
                            concatenation(ranks(), length, dtype)));
    };
    launchAll();
    check();
    rank.device->beginCapture();
    launchAll();
    auto graph = rank.device->endCapture();
    for (int launches = 0; launches < 3; ++launches) {
      rank.device->fill(0, all, 0, length * ranks() * sizeof(double));
      graph->launch();
      check();
    }
  });
}

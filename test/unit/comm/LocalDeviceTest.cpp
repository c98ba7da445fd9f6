// Tests what is particular to ranks that are threads of one process: failures,
// and that the numbers are the hosts' to the bit.
#include "DeviceConformance.h"

#include "Error.h"
#include "comm/Reduce.h"

#include <cmath>
#include <limits>

using namespace fsdp;
using namespace fsdp::test;

namespace {

using Kind = plan::CollectiveKind;

Transfer sumOf(char *numbers, size_t count) {
  return {Kind::AllReduce, numbers, numbers, count, plan::DType::Float32};
}

} // namespace

TEST(LocalDevice, RoundsAsCombineDoes) {
  // Divisors that bfloat16 has not, and whose reciprocal float has not.
  for (plan::DType dtype : {plan::DType::BFloat16, plan::DType::Float16,
                            plan::DType::Float32, plan::DType::Float64})
    for (double divisor : {1.0, 3.0, 4.0, 257.0, 0.1})
      for (const std::string &error :
           onDevices(3, localDevices(3, 1), [&](DeviceRank &rank) {
             constexpr int64_t count = 1000;
             DeviceTensors tensors(rank, false);
             std::vector<at::Tensor> all;
             std::vector<const void *> sources;
             for (int r = 0; r < 3; ++r) {
               all.push_back(contribution(r, count, dtype));
               sources.push_back(all.back().const_data_ptr());
             }
             at::Tensor expected = at::empty_like(all[0]);
             combine(sources, {expected.data_ptr()}, count, dtype, divisor);
             Transfer transfer;
             transfer.kind = Kind::AllReduce;
             transfer.count = count;
             transfer.dtype = dtype;
             transfer.divisor = divisor;
             char *mine = tensors.put(all[rank.rank], dtype);
             transfer.source = transfer.destination = mine;
             launch(rank, transfer, 1);
             EXPECT_TRUE(at::equal(tensors.get(mine, count, dtype), expected))
                 << plan::dtypeName(dtype) << " / " << divisor;
           }))
        EXPECT_EQ(error, "");
}

TEST(LocalDevice, NaNIsLargerThanAnyNumber) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::string &error :
       onDevices(3, localDevices(3, 1), [&](DeviceRank &rank) {
         DeviceTensors tensors(rank, false);
         at::Tensor mine = at::full({2}, float(rank.rank));
         if (rank.rank == 1)
           mine[0] = nan;
         char *at = tensors.put(mine, plan::DType::Float32);
         Transfer transfer = sumOf(at, 2);
         transfer.op = plan::ReduceOp::Max;
         launch(rank, transfer, 0);
         at::Tensor seen = tensors.get(at, 2, plan::DType::Float32);
         EXPECT_TRUE(std::isnan(seen[0].item<float>()));
         EXPECT_EQ(seen[1].item<float>(), 2);
       }))
    EXPECT_EQ(error, "");
}

/// They are added in the same memory, the second perhaps while the first one's
/// result is copied out of it: the thread sanitizer sees it.
TEST(LocalDevice, SumsOfTwoStreamsAreKeptApart) {
  auto errors = onDevices(2, localDevices(2, 1), [](DeviceRank &rank) {
    constexpr int64_t count = 1 << 20; // takes a while to copy
    constexpr uint64_t bytes = count * sizeof(float);
    DeviceMemory numbers = rank.device->allocate(2 * bytes);
    rank.device->fill(0, numbers.data(), 1, bytes);
    rank.device->fill(0, numbers.data() + bytes, 2, bytes);
    DeviceMemory sums = rank.device->allocate(2 * bytes);
    Transfer transfer = sumOf(nullptr, count);
    rank.communicator->prepare(transfer);
    rank.device->drain();
    for (unsigned stream : {1, 2}) {
      transfer.source = numbers.data() + (stream - 1) * bytes;
      transfer.destination = sums.data() + (stream - 1) * bytes;
      rank.communicator->launch(transfer, stream);
    }
    std::vector<float> one(2 * count), sum(2 * count);
    rank.device->drain();
    rank.device->copy(0, one.data(), numbers.data(), 2 * bytes);
    rank.device->copy(0, sum.data(), sums.data(), 2 * bytes);
    rank.device->drain();
    for (float &x : one)
      x += x;
    EXPECT_TRUE(sum == one);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

TEST(LocalDevice, ARankThatFailsWakesTheOthers) {
  auto errors = onDevices(3, localDevices(3, 1), [](DeviceRank &rank) {
    DeviceTensors tensors(rank, false);
    Transfer transfer = sumOf(tensors.zeros(10, plan::DType::Float32), 10);
    launch(rank, transfer, 1);
    if (rank.rank == 1)
      throw Error(E::FileUnwritable, "the disk is full");
    EXPECT_THROW(launch(rank, transfer, 1), PeerFailure);
    launch(rank, transfer, 1);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{
                        "rank 1 failed", "the disk is full", "rank 1 failed"}));
}

TEST(LocalDevice, ARankThatEndsFailsThoseWhoWaitForIt) {
  auto errors = onDevices(2, localDevices(2, 1), [](DeviceRank &rank) {
    DeviceTensors tensors(rank, false);
    Transfer transfer = sumOf(tensors.zeros(10, plan::DType::Float32), 10);
    launch(rank, transfer, 1);
    if (rank.rank == 0)
      launch(rank, transfer, 1);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"rank 1 ended", ""}));
}

TEST(LocalDevice, OneRankAloneIsCaptured) {
  auto errors = onDevices(1, localDevices(1, 1), [](DeviceRank &rank) {
    EXPECT_EQ(rank.communicator->whyNotCaptured(), "");
    DeviceTensors tensors(rank, false);
    char *from = tensors.zeros(2, plan::DType::Float32);
    char *to = tensors.zeros(2, plan::DType::Float32);
    Transfer transfer{Kind::AllReduce, from, to, 2, plan::DType::Float32, 2};
    rank.communicator->prepare(transfer);
    rank.device->beginCapture();
    rank.device->record(0, 0);
    rank.device->wait(1, 0);
    rank.communicator->launch(transfer, 1); // divides, by a kernel
    rank.device->record(1, 1);
    rank.device->wait(0, 1);
    auto graph = rank.device->endCapture();
    at::Tensor values = at::full({2}, 6.f);
    rank.device->copy(0, from, values.const_data_ptr(), values.nbytes());
    graph->launch();
    EXPECT_TRUE(at::equal(tensors.get(to, 2, plan::DType::Float32),
                          at::full({2}, 3.f)));
  });
  EXPECT_EQ(errors, std::vector<std::string>{""});
}

TEST(LocalDevice, DifferentTransfersAreRefused) {
  auto errors = onDevices(2, localDevices(2, 1), [](DeviceRank &rank) {
    DeviceTensors tensors(rank, false);
    launch(rank, sumOf(tensors.zeros(10, plan::DType::Float32), 5 + rank.rank),
           1);
  });
  for (const std::string &error : errors)
    EXPECT_TRUE(error.find("ranks do not do the same") != std::string::npos ||
                error.find("failed") != std::string::npos)
        << error;
  EXPECT_NE(
      (errors[0] + errors[1]).find("an all-reduce of 20 bytes (5 float32)"),
      std::string::npos)
      << errors[0] << errors[1];
}

TEST(LocalDevice, TakesNoMemoryInALaunch) {
  auto errors = onDevices(2, localDevices(2, 1), [](DeviceRank &rank) {
    DeviceTensors tensors(rank, false);
    Transfer transfer = sumOf(tensors.zeros(1000, plan::DType::Float32), 1000);
    transfer.divisor = 3;
    rank.communicator->prepare(transfer);
    launch(rank, transfer, 1); // all ranks have prepared theirs
    uint64_t before = imitation::bytesInUse();
    launch(rank, transfer, 1);
    EXPECT_EQ(imitation::bytesInUse(), before);
    launch(rank, transfer, 1);
  });
  EXPECT_EQ(errors, (std::vector<std::string>{"", ""}));
}

// Tests that every communicator moves and adds the same bits, in every dtype
// and size, in memory of its own and in memory that the communicator gave.
#include "Conformance.h"

#include "ErrorKind.h"

using namespace fsdp;
using namespace fsdp::test;

namespace {

struct Shape {
  plan::DType dtype;
  int64_t count;
};

/// Every dtype with odd counts, a scalar and none; the largest is several times
/// what one part, or one round, moves.
std::vector<Shape> shapes() {
  std::vector<Shape> all;
  for (plan::DType dtype : plan::EnumValuesDType())
    for (int64_t count : {0, 1, 1027})
      all.push_back({dtype, count});
  for (plan::DType dtype : {plan::DType::BFloat16, plan::DType::Float32})
    all.push_back({dtype, 70'001});
  return all;
}

} // namespace

class Values : public Conformance {
protected:
  /// In both kinds of memory, for all dtypes and counts.
  template <typename Check> void forAll(Check check) {
    everywhere([&](Communicator &c) {
      bool good = true;
      for (bool inArena : {false, true}) {
        Memory memory(c, inArena);
        for (const Shape &shape : shapes()) {
          memory.clear();
          good = check(c, memory, shape) && good;
        }
        c.barrier();
      }
      return good;
    });
  }
  template <typename Check> void forAllSums(Check check) {
    forAll([&](Communicator &c, Memory &memory, const Shape &shape) {
      bool good = true;
      if (!plan::isReducible(shape.dtype, plan::ReduceOp::Sum))
        return true;
      for (double divisor : {1.0, 2.0, 3.0}) {
        if (divisor != 1 && !plan::isFloating(shape.dtype))
          continue;
        memory.clear();
        good = check(c, memory, shape, divisor) && good;
      }
      return good;
    });
  }
};

TEST_P(Values, AllGather) {
  forAll([&](Communicator &c, Memory &memory, Shape shape) {
    auto [dtype, count] = shape;
    at::Tensor expected = concatenation(ranks(), count, dtype);
    at::Tensor from = memory.put(contribution(c.rank(), count, dtype), dtype);
    at::Tensor actual = memory.empty(count * ranks(), dtype).zero_();
    c.allGather(from.const_data_ptr(), actual.data_ptr(), count, dtype);
    bool good = sameBits(actual, expected);
    // In place.
    actual.zero_();
    at::Tensor mine = actual.narrow(0, c.rank() * count, count).copy_(from);
    c.allGather(mine.data_ptr(), actual.data_ptr(), count, dtype);
    return good && sameBits(actual, expected);
  });
}

TEST_P(Values, ReduceScatter) {
  forAllSums([&](Communicator &c, Memory &memory, Shape shape, double divisor) {
    auto [dtype, count] = shape;
    int64_t all = count * ranks();
    at::Tensor expected = orderedSum(ranks(), all, dtype, divisor)
                              .narrow(0, c.rank() * count, count);
    at::Tensor from = memory.put(contribution(c.rank(), all, dtype), dtype);
    at::Tensor actual = memory.empty(count, dtype).zero_();
    c.reduceScatter(from.const_data_ptr(), actual.data_ptr(), count, dtype,
                    divisor);
    bool good = at::equal(actual, expected);
    // In place.
    at::Tensor mine = from.narrow(0, c.rank() * count, count);
    c.reduceScatter(from.const_data_ptr(), mine.data_ptr(), count, dtype,
                    divisor);
    return good && at::equal(mine, expected);
  });
}

TEST_P(Values, AllToAll) {
  forAll([&](Communicator &c, Memory &memory, Shape shape) {
    auto [dtype, count] = shape;
    int64_t all = count * ranks();
    std::vector<at::Tensor> mine;
    for (int r = 0; r < ranks(); ++r)
      mine.push_back(
          contribution(r, all, dtype).narrow(0, c.rank() * count, count));
    at::Tensor from = memory.put(contribution(c.rank(), all, dtype), dtype);
    at::Tensor actual = memory.empty(all, dtype).zero_();
    c.finish(c.start({plan::CollectiveKind::AllToAll, from.const_data_ptr(),
                      actual.data_ptr(), static_cast<size_t>(count), dtype}));
    return sameBits(actual, at::cat(mine));
  });
}

TEST_P(Values, AllReduce) {
  forAllSums([&](Communicator &c, Memory &memory, Shape shape, double divisor) {
    auto [dtype, count] = shape;
    at::Tensor expected = orderedSum(ranks(), count, dtype, divisor);
    at::Tensor from = memory.put(contribution(c.rank(), count, dtype), dtype);
    at::Tensor actual = memory.empty(count, dtype).zero_();
    c.allReduce(from.const_data_ptr(), actual.data_ptr(), count, dtype,
                divisor);
    bool good = at::equal(actual, expected);
    // In place.
    c.allReduce(from.const_data_ptr(), from.data_ptr(), count, dtype, divisor);
    return good && at::equal(from, expected);
  });
}

TEST_P(Values, AllReduceOfTheLargest) {
  forAll([&](Communicator &c, Memory &memory, Shape shape) {
    auto [dtype, count] = shape;
    if (!plan::isReducible(dtype, plan::ReduceOp::Max))
      return true;
    at::Tensor expected = contribution(0, count, dtype);
    for (int r = 1; r < ranks(); ++r)
      expected = at::maximum(expected, contribution(r, count, dtype));
    at::Tensor from = memory.put(contribution(c.rank(), count, dtype), dtype);
    at::Tensor actual = memory.empty(count, dtype).zero_();
    c.allReduce(from.const_data_ptr(), actual.data_ptr(), count, dtype,
                /*divisor=*/1, plan::ReduceOp::Max);
    return at::equal(actual, expected);
  });
}

TEST_P(Values, BroadcastAndBarrier) {
  forAll([&](Communicator &c, Memory &memory, Shape shape) {
    auto [dtype, count] = shape;
    int root = (ranks() - 1) / 2;
    at::Tensor buffer = memory.put(contribution(c.rank(), count, dtype), dtype);
    c.broadcast(buffer.data_ptr(), count, dtype, root);
    c.barrier();
    return sameBits(buffer, contribution(root, count, dtype));
  });
}

TEST_P(Values, MemoryThatOnlySomeRanksShare) {
  everywhere([&](Communicator &c) {
    Memory arena(c, true), other(c, false);
    Memory &memory = c.rank() == 0 ? arena : other;
    constexpr auto dtype = plan::DType::Float32;
    constexpr int64_t count = 100'000;
    at::Tensor from =
        memory.put(contribution(c.rank(), count * ranks(), dtype), dtype);
    at::Tensor actual = memory.empty(count, dtype);
    c.reduceScatter(from.const_data_ptr(), actual.data_ptr(), count, dtype);
    return at::equal(actual, orderedSum(ranks(), count * ranks(), dtype)
                                 .narrow(0, c.rank() * count, count));
  });
}

TEST_P(Values, WhatCannotBeReducedIsRefused) {
  everywhere([&](Communicator &c) {
    bool flag = true;
    EXPECT_EQ(identifierThrownBy(
                  [&] { c.allReduce(&flag, &flag, 1, plan::DType::Bool); }),
              "FSDP-E0612");
    int64_t n = 1;
    EXPECT_THROW(c.allReduce(&n, &n, 1, plan::DType::Int64, 2), Error);
    // And leaves no trace.
    c.allReduce(&n, &n, 1, plan::DType::Int64);
    return n == ranks();
  });
}

INSTANTIATE_TEST_SUITE_P(All, Values, testing::ValuesIn(everyCommunicator()),
                         nameOf);

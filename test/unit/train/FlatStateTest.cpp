// Tests that the ranks' pieces of a flat state are its members' elements, each
// once, and come back whole, however pieces cut members.
#include "PlanBuilder.h"
#include "StoredTensors.h"
#include "TemporaryFolder.h"
#include "TensorFunctions.h"
#include "ThreadRanks.h"
#include "data/SafeTensors.h"
#include "executor/Executor.h"
#include "executor/HostBackend.h"
#include "state/LoadWeights.h"
#include "state/SaveWeights.h"

#include <gtest/gtest.h>
#include <random>
#include <thread>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr int64_t alignment = 16; // elements of float32 in 64 bytes

int64_t alignUp(int64_t count) {
  return (count + alignment - 1) / alignment * alignment;
}

/// A flat state "flat" of random members "0", "1", ..., and their numbers.
struct FlatPlan {
  explicit FlatPlan(unsigned seed) : random(seed), builder(ranks) {
    int64_t size = 0;
    std::vector<int64_t> offsets;
    for (unsigned i = 0, count = 1 + random() % 6; i < count; ++i) {
      Shape shape;
      for (unsigned d = 0, dims = random() % 4; d < dims; ++d)
        shape.push_back(1 + random() % 6);
      numbers.push_back(at::rand(shape) + 1);
      offsets.push_back(size);
      size = alignUp(size + numbers.back().numel());
    }
    piece = alignUp((size + ranks - 1) / ranks);
    whole = at::zeros({piece * ranks});
    builder.state("flat", plan::Role::Parameter, {piece * ranks}, true);
    builder.plan.states[0]->is_flat = true;
    for (size_t i = 0; i < numbers.size(); ++i) {
      whole.narrow(0, offsets[i], numbers[i].numel())
          .copy_(numbers[i].flatten());
      auto member = std::make_unique<plan::StateT>();
      member->fqn = std::to_string(i);
      member->role = plan::Role::Parameter;
      member->dtype = plan::DType::Float32;
      member->shape = member->local_shape = numbers[i].sizes().vec();
      member->strides = plan::rowMajorStrides(member->shape);
      member->place =
          std::make_unique<plan::Place>(*builder.plan.states[0]->place);
      member->trainable = true;
      member->flat = 0;
      member->flat_offset = offsets[i];
      builder.plan.states.push_back(std::move(member));
    }
  }

  void write(const std::string &path) const {
    std::vector<SafeTensorsWriter::Tensor> types;
    for (size_t i = 0; i < numbers.size(); ++i)
      types.push_back(
          {std::to_string(i), plan::DType::Float32, numbers[i].sizes().vec()});
    SafeTensorsWriter writer(path, types);
    for (size_t i = 0; i < numbers.size(); ++i)
      writer.write(std::to_string(i), numbers[i].const_data_ptr());
    writer.finish();
  }

  std::mt19937 random;
  unsigned ranks = 1 + random() % 5;
  PlanBuilder builder;
  std::vector<at::Tensor> numbers;
  int64_t piece = 0;
  at::Tensor whole;
};

} // namespace

TEST(FlatState, PiecesCoverTheirMembers) {
  for (unsigned seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    FlatPlan flat(seed);
    const plan::PlanT &plan = flat.builder.finish();
    TemporaryFolder folder;
    flat.write(folder / "weights");
    ThreadRanks group(flat.ranks);
    std::vector<std::thread> threads;
    for (unsigned rank = 0; rank < flat.ranks; ++rank)
      threads.emplace_back([&, rank] {
        auto communicator = group.connect(rank);
        HostBackend backend(*communicator);
        Executor executor(plan, backend, {});
        loadWeights(plan, {folder / "weights", /*fromRank0=*/seed % 2 == 1},
                    *communicator, executor);
        at::Tensor expected =
            flat.whole.narrow(0, rank * flat.piece, flat.piece);
        EXPECT_TRUE(at::equal(executor.state(0), expected)) << "rank " << rank;
        saveWeights(plan, folder / "saved", *communicator, executor,
                    [](const std::string &) {});
      });
    for (std::thread &thread : threads)
      thread.join();
    SafeTensors saved(folder / "saved");
    EXPECT_EQ(saved.tensors().size(), flat.numbers.size());
    for (size_t i = 0; i < flat.numbers.size(); ++i) {
      const StoredTensor *tensor = saved.find(std::to_string(i));
      ASSERT_TRUE(tensor);
      at::Tensor found = at::from_blob(const_cast<char *>(tensor->data),
                                       tensor->shape, at::kFloat);
      EXPECT_TRUE(at::equal(found, flat.numbers[i])) << "member " << i;
    }
  }
}

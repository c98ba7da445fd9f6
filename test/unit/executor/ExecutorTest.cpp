// Tests that a plan executes as direct calls of PyTorch's operators do, on one
// rank and on several.
#include "executor/Executor.h"

#include "executor/HostBackend.h"

#include "Error.h"
#include "ErrorKind.h"
#include "PlanBuilder.h"
#include "TensorFunctions.h"
#include "ThreadRanks.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <thread>
#include <torch/library.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

constexpr int64_t out = 3, in = 5, batch = 4;
constexpr int steps = 5;

at::Tensor numbers(at::IntArrayRef shape, int salt) {
  int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 0.7 + salt).reshape(shape);
}

void set(Executor &executor, int program, int input, const at::Tensor &t) {
  executor.setInput(program, input, t.contiguous().const_data_ptr());
}

/// The training that linearRegression describes, by PyTorch itself.
std::pair<at::Tensor, std::vector<double>> reference(int ranks) {
  at::Tensor w = numbers({out, in}, 1);
  std::vector<double> losses;
  for (int step = 1; step <= steps; ++step) {
    at::Tensor sum;
    double loss = 0;
    for (int r = 0; r < ranks; ++r) {
      at::Tensor x = numbers({batch, in}, step * 10 + r);
      at::Tensor y = numbers({batch, out}, step * 20 + r);
      at::Tensor difference = at::sub(at::mm(x, w.t()), y);
      loss += at::mean(at::mul(difference, difference)).item<double>();
      at::Tensor scaled = at::mul(difference, 2.0 / (batch * out));
      at::Tensor gradient = at::mm(scaled.t(), x);
      sum = r == 0 ? gradient : at::add(sum, gradient);
    }
    if (ranks > 1)
      sum = at::div(sum, ranks);
    w = at::add(w, sum, -0.1);
    losses.push_back(loss / ranks);
  }
  return {w, losses};
}

/// The same by the executor, ranks as threads.
std::pair<at::Tensor, std::vector<double>> executed(int ranks, bool poison) {
  auto builder = linearRegression(ranks, out, in, batch);
  const plan::PlanT &plan = builder->finish();
  int64_t part = plan.states[0]->local_shape[0];
  at::Tensor start =
      at::constant_pad_nd(numbers({out, in}, 1), {0, 0, 0, part * ranks - out});
  std::vector<at::Tensor> shards(ranks);
  std::vector<std::vector<double>> losses(ranks);
  ThreadRanks group(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r)
    threads.emplace_back([&, r] {
      auto communicator = group.connect(r);
      ExecutorOptions options;
      options.poison = poison;
      HostBackend backend(*communicator);
      Executor executor(plan, backend, options);
      executor.state(0).copy_(start.narrow(0, r * part, part));
      int program = plan::findProgram(plan, "step");
      for (int step = 1; step <= steps; ++step) {
        set(executor, program, 0, numbers({batch, in}, step * 10 + r));
        set(executor, program, 1, numbers({batch, out}, step * 20 + r));
        executor.run(program, step);
        losses[r].push_back(executor.outputs().at(0));
      }
      shards[r] = executor.state(0).clone();
    });
  for (std::thread &thread : threads)
    thread.join();
  std::vector<double> means(steps);
  for (int s = 0; s < steps; ++s) {
    for (int r = 0; r < ranks; ++r)
      means[s] += losses[r][s];
    means[s] /= ranks;
  }
  return {at::cat(shards).narrow(0, 0, out), means};
}

} // namespace

class Regression : public testing::TestWithParam<std::tuple<int, bool>> {};

TEST_P(Regression, IsBitwisePyTorchs) {
  auto [ranks, poison] = GetParam();
  auto expected = reference(ranks), actual = executed(ranks, poison);
  EXPECT_TRUE(at::equal(expected.first, actual.first));
  EXPECT_EQ(expected.second, actual.second);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Regression,
                         testing::Combine(testing::Values(1, 2, 3, 5),
                                          testing::Bool()));

/// A program of one operator on one rank, with what to look at afterwards.
class OneOperator : public testing::Test {
protected:
  OneOperator() { builder.program("step"); }

  std::unique_ptr<Executor> load(ExecutorOptions options = {}) {
    return std::make_unique<Executor>(builder.finish(), backend, options);
  }

  std::string refusal(bool run = true) {
    try {
      auto executor = load();
      if (run)
        executor->run(0, 1);
    } catch (const Error &error) {
      return withIdentifier(error.what(), error.kind);
    }
    return "";
  }

  PlanBuilder builder{1};
  std::unique_ptr<Communicator> communicator = ThreadRanks(1).connect(0);
  HostBackend backend{*communicator};
};

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

TEST_F(OneOperator, UnknownIsRefusedAtLoad) {
  int v = builder.newValue("v", {2});
  builder.aten("aten::no_such_operator", {}, {v});
  EXPECT_HAS(refusal(false), "aten::no_such_operator");
  EXPECT_HAS(refusal(false), "[FSDP-E0504]");
}

TEST_F(OneOperator, ResultOfAnotherShapeIsNamed) {
  int a = builder.newValue("a", {2, 3}), b = builder.newValue("b", {2});
  builder.input("a", a, false);
  builder.aten("aten::neg", {value(a)}, {b});
  std::string text = refusal();
  EXPECT_HAS(text, "aten::neg in model");
  EXPECT_HAS(text, "[2, 3]");
}

TEST_F(OneOperator, WhatPyTorchRefusesIsSaidWithThePlace) {
  int a = builder.newValue("a", {2, 3}), b = builder.newValue("b", {2, 3});
  builder.input("a", a, false);
  builder.aten("aten::mm", {value(a), value(a)}, {b});
  std::string text = refusal();
  EXPECT_HAS(text, "aten::mm in model: mat1 and mat2 shapes cannot be");
  EXPECT_HAS(text, "[FSDP-E0804]");
}

TEST_F(OneOperator, ViewThatCopiesIsRefused) {
  int a = builder.newValue("a", {2, 3});
  int b = builder.viewValue("b", a, {2, 3}, {3, 1});
  builder.input("a", a, false);
  builder.aten("aten::neg", {value(a)}, {b}, true);
  EXPECT_HAS(refusal(false), "not a view");
}

TEST_F(OneOperator, AbsentResultsAreDroppedAndListsTakenApart) {
  int a = builder.newValue("a", {4, 3}),
      i = builder.newValue("i", {3}, plan::DType::Int64);
  builder.input("a", a, false);
  builder.aten("aten::max.dim", {value(a), integer(0)}, {-1, i});
  int top = builder.viewValue("top", a, {1, 3}, {3, 1});
  int rest = builder.viewValue("rest", a, {3, 3}, {3, 1});
  builder.aten("aten::split_with_sizes", {value(a), integers({1, 3})},
               {top, rest}, true);
  int both = builder.newValue("both", {4, 3});
  builder.aten("aten::cat", {values({rest, top})}, {both});
  int sum = builder.newValue("sum", {});
  builder.aten("aten::select.int", {value(both), integer(0), integer(3)}, {-1});
  builder.aten("aten::sum", {value(top), byDefault()}, {sum});
  builder.output("loss", sum);
  auto executor = load();
  at::Tensor data = numbers({4, 3}, 2);
  set(*executor, 0, 0, data);
  executor->run(0, 1);
  EXPECT_EQ(executor->outputs().at(0), data[0].sum().item<double>());
}

TEST_F(OneOperator, AbsentTensorIsUndefined) {
  torch::Library library(torch::Library::FRAGMENT, "fsdp_test", std::nullopt,
                         __FILE__, __LINE__);
  library.def("is_defined(Tensor self, Tensor other) -> Tensor",
              [](const at::Tensor &self, const at::Tensor &other) {
                return at::full_like(self, other.defined());
              });
  int a = builder.newValue("a", {}), b = builder.newValue("b", {});
  builder.input("a", a, false);
  plan::ArgumentT absent;
  absent.kind = plan::ArgumentKind::None;
  builder.aten("fsdp_test::is_defined", {value(a), absent}, {b});
  builder.output("loss", b);
  auto executor = load();
  executor->run(0, 1);
  EXPECT_EQ(executor->outputs().at(0), 0);
}

TEST_F(OneOperator, NumbersBesideTensorsAreDropped) {
  int a = builder.newValue("a", {4, 3}), b = builder.newValue("b", {4, 3});
  builder.input("a", a, false);
  plan::ArgumentT training, cudnn;
  training.kind = cudnn.kind = plan::ArgumentKind::Bool;
  training.i = 1;
  // Its last result is a number.
  builder.aten("aten::_batch_norm_impl_index",
               {value(a), byDefault(), byDefault(), byDefault(), byDefault(),
                training, number(0.1), number(1e-5), cudnn},
               {b, -1, -1, -1});
  int sum = builder.newValue("sum", {});
  builder.aten("aten::sum", {value(b)}, {sum});
  builder.output("loss", sum);
  auto executor = load();
  at::Tensor data = numbers({4, 3}, 2);
  set(*executor, 0, 0, data);
  executor->run(0, 1);
  EXPECT_EQ(executor->outputs().at(0),
            at::batch_norm(data, {}, {}, {}, {}, true, 0.1, 1e-5, false)
                .sum()
                .item<double>());
}

TEST_F(OneOperator, ScalarsKeepTheirKind) {
  // An integer Scalar on an integer tensor must not become floating.
  int a = builder.newValue("a", {}, plan::DType::Int64);
  builder.aten("aten::full",
               {integers({}), integer(7),
                [] {
                  plan::ArgumentT dtype;
                  dtype.kind = plan::ArgumentKind::DType;
                  dtype.i = static_cast<int64_t>(plan::DType::Int64);
                  return dtype;
                }()},
               {a});
  int b = builder.newValue("b", {}, plan::DType::Int64);
  builder.aten("aten::mul.Scalar", {value(a), integer(6)}, {b});
  builder.output("loss", b);
  auto executor = load();
  executor->run(0, 1);
  EXPECT_EQ(executor->outputs().at(0), 42);
}

TEST_F(OneOperator, RandomSitesRepeatAndDiffer) {
  int a = builder.newValue("a", {64});
  builder.aten("aten::zeros", {integers({64})}, {a});
  std::vector<int> masks;
  for (int s : {1, 2, 1}) {
    int mask = builder.newValue("mask", {64});
    builder.aten("aten::bernoulli.p", {value(a), number(0.5), site(s)}, {mask});
    int sum = builder.newValue("weighted", {});
    int weights = builder.newValue("weights", {64});
    builder.aten("aten::cumsum", {value(mask), integer(0)}, {weights});
    builder.aten("aten::sum", {value(weights)}, {sum});
    builder.output("sum", sum);
  }
  auto executor = load();
  executor->run(0, 1);
  double one = executor->outputs().at(0), two = executor->outputs().at(1);
  EXPECT_NE(one, two);
  EXPECT_EQ(one, executor->outputs().at(2));
  executor->run(0, 2);
  EXPECT_NE(one, executor->outputs().at(0));
  executor->run(0, 1);
  EXPECT_EQ(one, executor->outputs().at(0));

  ExecutorOptions options;
  options.seed = 3;
  options.sequentialRandom = true;
  auto stream = load(options);
  stream->run(0, 1);
  at::Generator eager = at::detail::createCPUGenerator(3);
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(stream->outputs().at(i),
              at::bernoulli(at::zeros({64}), 0.5, eager)
                  .cumsum(0)
                  .sum()
                  .item<double>());
  // What is computed anew draws what it drew.
  EXPECT_EQ(stream->outputs().at(2), stream->outputs().at(0));
}

TEST_F(OneOperator, PoisonShowsAReadOfWhatNobodyWrote) {
  int a = builder.newValue("a", {3}), sum = builder.newValue("sum", {});
  builder.aten("aten::sum", {value(a)}, {sum});
  builder.output("loss", sum);
  ExecutorOptions options;
  options.poison = true;
  auto executor = load(options);
  executor->run(0, 1);
  EXPECT_TRUE(std::isnan(executor->outputs().at(0)));
}

TEST_F(OneOperator, PoisonLetsUnreadInputsBeWrittenOver) {
  int a = builder.newValue("a", {8}), b = builder.newValue("b", {});
  builder.input("a", a, false);
  auto &values = builder.plan.programs[0]->values;
  *values[b]->place =
      plan::Place(plan::deviceArena, values[a]->place->offset(), 4);
  builder.plan.arenas[plan::deviceArena]->bytes = 64;
  builder.copy(-1, b, 4);
  builder.output("loss", b);
  ExecutorOptions options;
  options.poison = true;
  auto executor = load(options);
  executor->run(0, 1);
  EXPECT_EQ(executor->outputs().at(0), 0);
}

TEST_F(OneOperator, NothingIsCapturedOnCpus) {
  EXPECT_EQ(identifierThrownBy([&] { backend.beginCapture(); }), "FSDP-E1006");
}

TEST_F(OneOperator, PoisonNamesAWritePastTheEnd) {
  int a = builder.newValue("a", {3}), b = builder.newValue("b", {1});
  builder.input("a", a, false);
  builder.copy(-1, b, 8);
  builder.output("loss", b);
  ExecutorOptions options;
  options.poison = true;
  auto executor = load(options);
  try {
    executor->run(0, 1);
    FAIL();
  } catch (const Error &error) {
    EXPECT_HAS(std::string(error.what()), "past the end of b");
    EXPECT_EQ(identifierOf(error.kind), "FSDP-E0505");
  }
}

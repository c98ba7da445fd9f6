// Tests a whole run of a plan built by hand: weights and data from files, the
// same numbers on any number of ranks, what is written, and what is refused.
#include "train/Trainer.h"

#include "Error.h"
#include "TestRun.h"

#include <cstring>
#include <gtest/gtest.h>

using namespace fsdp;
using namespace fsdp::test;

namespace {

#define EXPECT_HAS(text, part)                                                 \
  EXPECT_NE((text).find(part), std::string::npos) << (text)

} // namespace

TEST(Trainer, RanksAgreeWithOne) {
  TestRun one(1);
  one.options.evalData = one.options.data;
  ASSERT_EQ(one.train(), "");
  auto expected = one.rows();
  // 26 samples are 3 batches of 8, and an evaluation ends each epoch.
  ASSERT_EQ(expected.size(), 8u);
  EXPECT_TRUE(expected[3].contains("eval_loss"));
  EXPECT_EQ(expected[4]["epoch"], 2);
  EXPECT_LT(expected[6]["loss"], expected[0]["loss"]);
  for (int ranks : {2, 4}) {
    TestRun many(ranks);
    many.options.evalData = many.options.data;
    ASSERT_EQ(many.train(), "");
    auto rows = many.rows();
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      const char *name = expected[i].contains("loss") ? "loss" : "eval_loss";
      EXPECT_NEAR(rows[i][name], expected[i][name], 1e-6);
    }
    EXPECT_TRUE(at::allclose(many.saved(), one.saved(), 1e-5, 1e-6));
  }
}

TEST(Trainer, FollowsPyTorchOnOneRank) {
  TestRun run(1);
  run.options.shuffle = false;
  ASSERT_EQ(run.train(), "");
  at::Tensor w = numbers({out, in}, 1);
  at::Tensor xs = numbers({samples, in}, 2), ys = numbers({samples, out}, 3);
  auto rows = run.rows();
  for (int step = 0; step < 6; ++step) {
    at::Tensor x = xs.narrow(0, step % 3 * 8, 8);
    at::Tensor y = ys.narrow(0, step % 3 * 8, 8);
    at::Tensor difference = at::sub(at::mm(x, w.t()), y);
    EXPECT_EQ(rows[step]["loss"].get<double>(),
              at::mean(at::mul(difference, difference)).item<double>());
    at::Tensor scaled = at::mul(difference, 2.0 / (8 * out));
    w = at::add(w, at::mm(scaled.t(), x), -0.1);
  }
  EXPECT_TRUE(at::equal(run.saved(), w));
}

TEST(Trainer, SummaryCountsWhatWasDone) {
  TestRun run(2);
  run.options.logGradientNorm = true;
  ASSERT_EQ(run.train(), "");
  nlohmann::json summary;
  std::ifstream(run.options.summary) >> summary;
  EXPECT_EQ(summary["world_size"], 2);
  EXPECT_EQ(summary["steps"], 6);
  ASSERT_EQ(summary["collectives"].size(), 2u);
  EXPECT_EQ(summary["collectives"][0]["kind"], "all-gather");
  EXPECT_EQ(summary["collectives"][0]["region"], "forward");
  EXPECT_EQ(summary["collectives"][0]["calls"], 6);
  EXPECT_EQ(summary["collectives"][1]["calls_per_step"], 1);
  // Two of four rows, of which the last is padding.
  EXPECT_EQ(summary["rank_bytes"]["parameters"], 2 * in * 4);
  EXPECT_EQ(summary["rank_bytes"]["gradients"], 2 * in * 4);
  EXPECT_GT(run.rows()[0]["grad_norm"], 0);
}

TEST(Trainer, AliasesAreSavedAndFound) {
  TestRun run(2);
  run.loaded.plan->states[0]->aliases = {"tied"};
  ASSERT_EQ(run.train(), "");
  SafeTensors file(run.options.save);
  ASSERT_NE(file.find("tied"), nullptr);
  EXPECT_EQ(std::memcmp(file.find("tied")->data, file.find("w")->data,
                        file.find("w")->bytes),
            0);
}

TEST(Trainer, RepeatedInputsComeFromTheWeights) {
  TestRun run(1);
  for (auto &program : run.loaded.plan->programs)
    for (auto &input : program->inputs)
      input->from_data = false;
  writeTensors(run.options.weights, {{"w", numbers({out, in}, 1)},
                                     {"fsdp.input.x", numbers({8, in}, 2)},
                                     {"fsdp.input.y", numbers({8, out}, 3)}});
  run.options.data = "";
  run.options.epochs.reset();
  run.options.steps = 4;
  ASSERT_EQ(run.train(), "");
  auto rows = run.rows();
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_LT(rows[3]["loss"], rows[2]["loss"]);
}

TEST(Trainer, BadInputIsRefusedAndLeavesNothing) {
  auto refusal = [](auto change) {
    TestRun run(2);
    change(run);
    std::string text = run.train();
    EXPECT_NE(text, "");
    EXPECT_FALSE(std::filesystem::exists(run.folder / "saved"));
    EXPECT_FALSE(std::filesystem::exists(run.folder / "summary"));
    return text;
  };
  EXPECT_HAS(refusal([](TestRun &r) { r.options.weights = ""; }), "--weights");
  EXPECT_HAS(refusal([](TestRun &r) { r.options.data = ""; }), "--data");
  EXPECT_HAS(refusal([](TestRun &r) { r.options.save = "/nowhere/saved"; }),
             "/nowhere/saved");
  EXPECT_HAS(refusal([](TestRun &r) { r.options.epochs.reset(); }), "--steps");
  EXPECT_HAS(refusal([](TestRun &r) {
               writeTensors(r.options.weights, {{"v", numbers({out, in}, 1)}});
             }),
             "no w");
  EXPECT_HAS(refusal([](TestRun &r) {
               writeTensors(r.options.weights, {{"w", numbers({in, out}, 1)}});
             }),
             "float32[5, 3]");
  EXPECT_HAS(refusal([](TestRun &r) {
               r.loaded.plan->schedule = {0.1, 0.1, 0.1};
             }),
             "6 steps, the plan's schedule 3");
  EXPECT_HAS(refusal([](TestRun &r) {
               writeTensors(r.options.data, {{"x", numbers({7, in}, 2)},
                                             {"y", numbers({7, out}, 3)}});
             }),
             "7 samples");
  EXPECT_HAS(refusal([](TestRun &r) {
               at::Tensor x = numbers({samples, in}, 2);
               x[9] = NAN; // rank 1's first of step 2
               r.options.shuffle = false;
               r.options.nonFinite = NonFinite::Stop;
               writeTensors(r.options.data,
                            {{"x", x}, {"y", numbers({samples, out}, 3)}});
             }),
             "the loss of step 2 is NaN on rank 1");
  EXPECT_HAS(refusal([](TestRun &r) { r.options.nonFinite = NonFinite::Skip; }),
             "non-finite=skip");
}

// A whole run of a plan built by hand, with its files in a folder of its own.
#ifndef FSDP_TEST_UNIT_TRAIN_TESTRUN_H
#define FSDP_TEST_UNIT_TRAIN_TESTRUN_H

#include "PlanBuilder.h"
#include "StoredTensors.h"
#include "TemporaryFolder.h"
#include "TensorFunctions.h"
#include "ThreadRanks.h"
#include "data/SafeTensors.h"
#include "executor/HostBackend.h"
#include "train/Trainer.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace fsdp::test {

inline constexpr int64_t out = 3, in = 5, samples = 26;

inline at::Tensor numbers(at::IntArrayRef shape, double salt) {
  int64_t count = c10::multiply_integers(shape);
  return at::sin(at::arange(count, at::kFloat) * 0.7 + salt).reshape(shape);
}

inline void
writeTensors(const std::string &path,
             std::vector<std::pair<std::string, at::Tensor>> tensors) {
  std::vector<SafeTensorsWriter::Tensor> types;
  for (auto &[name, tensor] : tensors)
    types.push_back({name, plan::DType::Float32, tensor.sizes().vec()});
  SafeTensorsWriter writer(path, types);
  for (auto &[name, tensor] : tensors)
    writer.write(name, tensor.contiguous().const_data_ptr());
  writer.finish();
}

/// A folder with weights and data for linearRegression, and how to run it.
class TestRun {
public:
  explicit TestRun(int ranks, int64_t globalBatch = 8) : ranks(ranks) {
    loaded.plan = std::make_unique<plan::PlanT>(std::move(
        linearRegression(ranks, out, in, globalBatch / ranks)->finish()));
    loaded.digest = "digest";
    writeTensors(folder / "w", {{"w", numbers({out, in}, 1)}});
    writeTensors(folder / "d", {{"x", numbers({samples, in}, 2)},
                                {"y", numbers({samples, out}, 3)}});
    options.weights = folder / "w";
    options.data = folder / "d";
    options.metrics = folder / "metrics";
    options.summary = folder / "summary";
    options.save = folder / "saved";
    options.epochs = 2;
    options.poison = true;
    options.progress = ProgressKind::None;
  }

  /// Returns the first rank's error that is no consequence of another's.
  std::string train() {
    ThreadRanks group(ranks);
    std::vector<std::string> errors(ranks);
    std::vector<std::thread> threads;
    for (int r = 0; r < ranks; ++r)
      threads.emplace_back([&, r] {
        auto communicator = group.connect(r);
        try {
          HostBackend backend(*communicator);
          int signal = fsdp::train(loaded, options, *communicator, backend,
                                   [](const auto &) {});
          if (signal)
            errors[r] = "stopped by signal " + std::to_string(signal);
        } catch (const PeerFailure &) {
        } catch (const std::exception &error) {
          errors[r] = error.what();
          communicator->abort("aborted");
        }
      });
    for (std::thread &thread : threads)
      thread.join();
    for (const std::string &error : errors)
      if (!error.empty())
        return error;
    return "";
  }

  std::vector<nlohmann::json> rows() {
    std::vector<nlohmann::json> result;
    std::ifstream file(options.metrics);
    for (std::string line; std::getline(file, line);)
      result.push_back(nlohmann::json::parse(line));
    return result;
  }
  at::Tensor saved() {
    SafeTensors file(options.save);
    return at::from_blob(const_cast<char *>(file.find("w")->data), {out, in},
                         at::kFloat)
        .clone();
  }

  int ranks;
  TemporaryFolder folder;
  plan::LoadedPlan loaded;
  RunOptions options;
};

} // namespace fsdp::test

#endif // FSDP_TEST_UNIT_TRAIN_TESTRUN_H

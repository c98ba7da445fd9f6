#include "train/Metrics.h"

#include "plan/Files.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace fsdp {

/// The lines of a file that are of steps up to `done`.
static std::string linesUpTo(const std::string &path, uint64_t done) {
  std::string kept;
  std::error_code unknown;
  if (!std::filesystem::is_regular_file(path, unknown))
    return kept; // a device may have no end
  std::ifstream old(path);
  for (std::string text; done && std::getline(old, text);) {
    auto row = nlohmann::json::parse(text, nullptr, /*exceptions=*/false);
    if (row.is_object() && row.contains("step") &&
        row["step"].is_number_unsigned() && row["step"] <= done)
      kept += text + "\n";
  }
  return kept;
}

MetricsFile::MetricsFile(const std::string &path, uint64_t done) {
  std::string kept = linesUpTo(path, done);
  // At once: what was measured is not to be lost here.
  if (!kept.empty())
    writeFileAtomically(kept, path);
  file = open(path.c_str(),
              O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC |
                  (kept.empty() ? O_TRUNC : 0),
              0666);
  if (file < 0)
    throw Error("cannot write " + path + ": " + std::strerror(errno));
}

MetricsFile::~MetricsFile() { close(file); }

void MetricsFile::line(std::string text) {
  text = (broken ? "\n" : "") + text + "\n";
  ssize_t n;
  do
    n = ::write(file, text.data(), text.size());
  while (n < 0 && errno == EINTR);
  bool good = n == static_cast<ssize_t>(text.size());
  if (!good) {
    ++lostLines;
    why = n < 0 ? std::strerror(errno) : "the disk is full";
  }
  broken = n > 0 ? !good : broken;
}

/// JSON has no infinity and no NaN; readers take null for either.
static nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

void MetricsFile::write(const StepReport &report) {
  nlohmann::ordered_json json;
  json["step"] = report.step;
  json["epoch"] = report.epoch;
  for (const auto &[name, value] : report.outputs)
    json[name] = number(value);
  if (report.gradientNorm)
    json["grad_norm"] = number(*report.gradientNorm);
  if (report.skippedSteps)
    json["skipped_steps"] = *report.skippedSteps;
  if (!report.learningRates.empty())
    json["lr"] = report.learningRates[0];
  if (report.learningRates.size() > 1)
    json["lr_groups"] = report.learningRates;
  json["samples_per_s"] = number(report.samplesPerSecond);
  if (report.tokensPerSecond)
    json["tokens_per_s"] = number(*report.tokensPerSecond);
  json["step_ms"] = report.stepMs;
  json["data_wait_ms"] = report.dataWaitMs;
  if (report.exposedCommMs)
    json["exposed_comm_ms"] = *report.exposedCommMs;
  if (report.launchMs)
    json["launch_ms"] = *report.launchMs;
  if (report.offloadBytes)
    json["offload_bytes"] = *report.offloadBytes;
  json["memory_bytes"] = report.memoryBytes;
  json["memory_peak_bytes"] = report.memoryPeakBytes;
  if (report.failedCheckpoints)
    json["failed_checkpoints"] = report.failedCheckpoints;
  if (report.nonFiniteSteps)
    json["nonfinite_steps"] = report.nonFiniteSteps;
  line(json.dump());
}

void MetricsFile::write(const EvalReport &report) {
  nlohmann::ordered_json json;
  json["step"] = report.step;
  json["epoch"] = report.epoch;
  for (const auto &[name, value] : report.outputs)
    json[name] = number(value);
  line(json.dump());
}

} // namespace fsdp

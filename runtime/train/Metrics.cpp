#include "train/Metrics.h"

#include "Error.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

namespace fsdp {

MetricsFile::MetricsFile(const std::string &path) : path(path), file(path) {
  if (!file)
    throw Error("cannot write " + path + ": " + std::strerror(errno));
}

void MetricsFile::line(const std::string &text) {
  file << text << std::endl;
  if (!file)
    throw Error("cannot write " + path + ": " + std::strerror(errno));
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

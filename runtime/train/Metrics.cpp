#include "train/Metrics.h"

#include "plan/Files.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
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

/// A link is followed to a device or a pipe, as /dev/stdout is one; a file
/// behind one is somebody else's.
static int openBehindLink(const std::string &path) {
  int file = openToWrite(path, O_APPEND);
  struct stat status;
  bool dangles = file < 0 && errno == ENOENT;
  if (!dangles &&
      (file < 0 || (fstat(file, &status) == 0 && !S_ISREG(status.st_mode))))
    return file;
  close(file);
  errno = ELOOP;
  return -1;
}

MetricsWriter::MetricsWriter(const std::string &path, int flags)
    : name(path), file(openToWrite(path, flags | O_NOFOLLOW)) {
  if (file < 0 && errno == ELOOP)
    file = openBehindLink(path);
  if (file < 0)
    throw Error(E::FileUnwritable,
                "cannot write " + path + ": " +
                    (errno == ELOOP ? "it is a link; name the file itself"
                                    : reasonOfOpening()));
}

MetricsWriter::~MetricsWriter() { close(file); }

void MetricsWriter::append(const std::string &bytes) {
  off_t end = lseek(file, 0, SEEK_END);
  ssize_t n;
  do
    n = ::write(file, bytes.data(), bytes.size());
  while (n < 0 && errno == EINTR);
  if (n == static_cast<ssize_t>(bytes.size())) {
    broken = false;
    return;
  }
  ++lostLines;
  why = n < 0 ? std::strerror(errno) : "the disk is full";
  broken = broken || (n > 0 && ftruncate(file, end) != 0);
}

/// What a run that goes on after step `done` keeps of its lines.
static int keepLines(const std::string &path, uint64_t done) {
  std::string kept = linesUpTo(path, done);
  // At once: what was measured is not to be lost here.
  if (!kept.empty())
    writeFileAtomically(kept, path);
  // Else a new file too, by which whoever follows this one sees that lines are
  // written again.
  std::error_code ignored;
  if (kept.empty() && std::filesystem::is_regular_file(
                          std::filesystem::symlink_status(path, ignored)))
    std::filesystem::remove(path, ignored);
  return O_CREAT | O_APPEND | (kept.empty() ? O_TRUNC : 0);
}

MetricsFile::MetricsFile(const std::string &path, uint64_t done)
    : MetricsWriter(path, keepLines(path, done)) {}

void MetricsFile::write(const nlohmann::ordered_json &row) {
  append((isBroken() ? "\n" : "") + row.dump() + "\n");
}

/// JSON has no infinity and no NaN; readers take null for either.
static nlohmann::json number(double value) {
  return std::isfinite(value) ? nlohmann::json(value) : nlohmann::json();
}

nlohmann::ordered_json metricsOf(const StepReport &report) {
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
  if (report.flopsPerSecond)
    json["flops_per_s"] = number(*report.flopsPerSecond);
  if (report.flopsUtilization)
    json["hfu"] = number(*report.flopsUtilization);
  if (report.modelUtilization)
    json["mfu"] = number(*report.modelUtilization);
  json["step_ms"] = report.stepMs;
  json["data_wait_ms"] = report.dataWaitMs;
  if (report.dataWaitRank)
    json["data_wait_rank"] = *report.dataWaitRank;
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
  for (const UnitReport &unit : report.units) {
    auto &fields = json["units"][unit.name];
    if (unit.gradientNorm)
      fields["grad_norm"] = number(*unit.gradientNorm);
    fields["comm_bytes"] = unit.communicatedBytes;
    if (unit.exposedCommMs)
      fields["exposed_comm_ms"] = *unit.exposedCommMs;
  }
  return json;
}

nlohmann::ordered_json metricsOf(const EvalReport &report) {
  nlohmann::ordered_json json;
  json["step"] = report.step;
  json["epoch"] = report.epoch;
  for (const auto &[name, value] : report.outputs)
    json[name] = number(value);
  return json;
}

} // namespace fsdp

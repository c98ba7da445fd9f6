#include "train/Console.h"

#include "plan/FormatText.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>
#include <sys/ioctl.h>
#include <unistd.h>

namespace fsdp {

using Clock = std::chrono::steady_clock;

// Long runs show about this many lines where there is no bar.
static constexpr uint64_t linesPerRun = 20;

// Nor is a run silent for longer, where a step does not take as long.
static constexpr std::chrono::seconds quiet(30);

Console::Console(ProgressKind kind, const RunLength &length,
                 std::optional<uint64_t> logInterval)
    : length(length), lineInterval(std::max<uint64_t>(
                          1, (length.steps + linesPerRun - 1) / linesPerRun)),
      start(Clock::now()), drawn(start), lastLine(start) {
  if (kind == ProgressKind::Auto)
    kind = isatty(STDOUT_FILENO) ? ProgressKind::Bar : ProgressKind::Lines;
  bar = kind == ProgressKind::Bar;
  lines = bar || kind == ProgressKind::Lines;
  notes = kind != ProgressKind::None;
  objects = kind == ProgressKind::Json;
  if (logInterval && !bar)
    lineInterval = 1; // of the steps that are told
}

Console::~Console() { clearBar(); }

/// Whether somebody can read it.
bool Console::write(const std::string &text) {
  bool written =
      std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
  if (!written) {
    why = std::strerror(errno);
    std::clearerr(stdout);
  }
  return written;
}

void Console::clearBar() {
  if (barShown)
    write("\r\033[K");
  barShown = false;
}

bool Console::print(const std::string &text) {
  clearBar();
  bool written = write(text + "\n");
  lostLines += !written;
  return written;
}

void Console::line(const std::string &text) {
  if (lines)
    print(text);
}

static std::string objectText(const char *event,
                              nlohmann::ordered_json fields) {
  fields["event"] = event;
  return fields.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void Console::note(const std::string &text) {
  if (!notes)
    return;
  std::string line = "note: " + text;
  if (!print(objects ? objectText("note", {{"text", text}}) : line))
    std::fputs((line + "\n").c_str(), stderr);
}

void Console::object(const char *event, const nlohmann::ordered_json &fields) {
  if (objects)
    print(objectText(event, fields));
}

static std::string scalars(const NamedScalars &values, const char *separator) {
  std::string text;
  for (const auto &[name, value] : values)
    text += formatText("%s%s %.5g", text.empty() ? "" : separator, name.c_str(),
                       value);
  return text;
}

static std::string clock(double seconds) {
  auto total = static_cast<uint64_t>(std::max(0.0, seconds));
  if (total >= 3600)
    return formatText("%lu:%02lu:%02lu", total / 3600, total / 60 % 60,
                      total % 60);
  return formatText("%02lu:%02lu", total / 60, total % 60);
}

static std::string rate(const StepReport &report) {
  return report.tokensPerSecond
             ? formatText("%.0f tokens/s", *report.tokensPerSecond)
             : formatText("%.0f samples/s", report.samplesPerSecond);
}

void Console::step(const StepReport &report) {
  bool first = last.step == 0; // that is told, of a run that resumes too
  last = report;
  bool due = report.step % lineInterval == 0 || first ||
             report.step == length.steps ||
             (!bar && Clock::now() - lastLine >= quiet);
  if (due) {
    lastLine = Clock::now();
    std::string text = formatText("step: %lu  ", report.step);
    for (const auto &[name, value] : report.outputs)
      text += formatText("%s: %.5f  ", name.c_str(), value);
    if (report.gradientNorm)
      text += formatText("grad_norm: %.4f  ", *report.gradientNorm);
    if (!report.learningRates.empty())
      text += formatText("lr: %.3g  ", report.learningRates[0]);
    text += formatText("memory: %.2fGiB  ",
                       report.memoryPeakBytes / double(1 << 30));
    if (report.tokensPerSecond)
      text += formatText("tokens/s: %.0f  ", *report.tokensPerSecond);
    else
      text += formatText("samples/s: %.0f  ", report.samplesPerSecond);
    text += formatText("step_ms: %.1f", report.stepMs);
    line(text);
  }
  drawBar();
}

/// Characters of a row of the terminal, if it is one that says so.
static std::optional<size_t> columns() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
    return std::nullopt;
  return size.ws_col;
}

void Console::drawBar() {
  auto now = Clock::now();
  bool end = last.step >= length.steps;
  if (!bar || (!end && now - drawn < std::chrono::milliseconds(100)))
    return;
  drawn = now;
  constexpr int width = 24;
  int full = static_cast<int>(width * last.step / length.steps);
  double elapsed = std::chrono::duration<double>(now - start).count();
  double left = elapsed / std::max<uint64_t>(1, last.step - length.done) *
                (length.steps - last.step);
  std::string text = formatText("epoch %lu/%lu |", last.epoch, length.epochs());
  text += std::string(full, '#') + std::string(width - full, ' ');
  text += formatText("| %lu/%lu  ", last.step, length.steps);
  if (!last.outputs.empty())
    text += formatText("loss %.4f  ", last.outputs[0].second);
  if (!last.learningRates.empty())
    text += formatText("lr %.3g  ", last.learningRates[0]);
  text += rate(last) + "  " + clock(left) + " left";
  // What goes on in the next row is not drawn over.
  text.resize(std::min(text.size(), columns().value_or(text.size())));
  write("\r" + text + "\033[K");
  barShown = true;
}

void Console::evaluation(const EvalReport &report) {
  line(formatText("step: %lu  ", report.step) + scalars(report.outputs, "  "));
}

void Console::epoch(uint64_t epoch, const NamedScalars &means,
                    const NamedScalars &evaluated) {
  std::string text = formatText("epoch %lu/%lu  ", epoch, length.epochs());
  text += scalars(means, "  ");
  if (!evaluated.empty())
    text += "  " + scalars(evaluated, "  ");
  line(text);
}

} // namespace fsdp

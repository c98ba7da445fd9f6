// What rank 0 prints of a run, off a terminal.

#include "train/Console.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <pty.h>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

namespace fsdp {
namespace {

/// The lines that a run of some steps prints, each of which takes no time.
std::vector<std::string> linesOf(ProgressKind kind, uint64_t steps,
                                 std::optional<uint64_t> logInterval,
                                 uint64_t done = 0) {
  testing::internal::CaptureStdout();
  RunLength length;
  length.steps = steps;
  length.done = done;
  Console console(kind, length, logInterval);
  for (uint64_t step = done + 1; step <= steps; ++step) {
    StepReport report;
    report.step = step;
    if (step % logInterval.value_or(1) == 0)
      console.step(report);
  }
  console.note("three words \xff here");
  console.object("step", {{"step", 7}});
  std::istringstream text(testing::internal::GetCapturedStdout());
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  return lines;
}

TEST(Console, ShowsEachStepThatTheUserLogs) {
  std::vector<std::string> lines = linesOf(ProgressKind::Lines, 100, 2);
  ASSERT_EQ(lines.size(), 50u + 1);
  EXPECT_EQ(lines[1].substr(0, 9), "step: 4  ");
}

TEST(Console, ShowsSomeStepsOfALongRun) {
  std::vector<std::string> lines =
      linesOf(ProgressKind::Lines, 1000, std::nullopt);
  EXPECT_EQ(lines.size(), 21u + 1); // the first, and each twentieth part
  EXPECT_EQ(lines.back(), "note: three words \xff here");
}

TEST(Console, ShowsTheFirstStepOfARunThatResumes) {
  std::vector<std::string> lines =
      linesOf(ProgressKind::Lines, 1000, std::nullopt, 501);
  EXPECT_EQ(lines[0].substr(0, 11), "step: 502  ");
  EXPECT_EQ(lines[1].substr(0, 11), "step: 550  ");
}

TEST(Console, TellsProgramsObjectsAlone) {
  std::vector<std::string> lines = linesOf(ProgressKind::Json, 1000, 1);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(nlohmann::json::parse(lines[0])["event"], "note");
  EXPECT_EQ(lines[1], R"({"step":7,"event":"step"})");
}

TEST(Console, IsSilentWhereNothingIsWanted) {
  EXPECT_TRUE(linesOf(ProgressKind::None, 10, 1).empty());
}

TEST(Console, DrawsABarThatATerminalHasRoomFor) {
  winsize size = {24, 40, 0, 0};
  int ours, its;
  ASSERT_EQ(openpty(&ours, &its, nullptr, nullptr, &size), 0);
  std::fflush(stdout);
  int kept = dup(STDOUT_FILENO);
  dup2(its, STDOUT_FILENO);
  RunLength length;
  length.steps = 10;
  StepReport report;
  report.step = 10;
  report.learningRates = {0.001};
  Console(ProgressKind::Bar, length, std::nullopt).step(report);
  dup2(kept, STDOUT_FILENO);
  for (int file : {its, kept})
    close(file);
  // A terminal hands over what was written in as many pieces as it likes, and
  // is at its end, which read says by an error, when nobody has it open.
  std::string written;
  char piece[1000];
  for (ssize_t got; (got = read(ours, piece, sizeof piece)) > 0;)
    written.append(piece, got);
  close(ours);
  size_t begin = written.find("\repoch"), end = written.find("\033[K", begin);
  ASSERT_NE(end, std::string::npos) << written;
  EXPECT_EQ(end - begin - 1, 40u) << written;
}

} // namespace
} // namespace fsdp

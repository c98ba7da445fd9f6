// Tests where a run's secret comes from, and which ones are refused.
#include "launch/Secret.h"

#include "Error.h"
#include "TemporaryFolder.h"

#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <sys/stat.h>

using namespace fsdp;
using fsdp::test::TemporaryFolder;

namespace {

std::string findIn(const std::map<std::string, std::string> &variables) {
  return findSecret([&](const std::string &name) {
    auto found = variables.find(name);
    return found == variables.end() ? std::nullopt
                                    : std::optional(found->second);
  });
}

std::string errorOf(const std::map<std::string, std::string> &variables) {
  try {
    return "no error: " + findIn(variables);
  } catch (const Error &error) {
    return error.what();
  }
}

std::string fileOf(const TemporaryFolder &folder, const std::string &text,
                   mode_t mode) {
  std::string path = folder / "secret";
  std::ofstream(path) << text;
  chmod(path.c_str(), mode);
  return path;
}

} // namespace

TEST(Secret, IsInAVariableOrAFile) {
  TemporaryFolder folder;
  std::string path = fileOf(folder, "sixteen bytes or more\n", 0600);
  EXPECT_EQ(findIn({}), "");
  EXPECT_EQ(findIn({{"FSDP_RUN_SECRET", "sixteen bytes or more"}}),
            "sixteen bytes or more");
  EXPECT_EQ(findIn({{"FSDP_RUN_SECRET_FILE", path}}), "sixteen bytes or more");
}

TEST(Secret, NewOnesDiffer) {
  EXPECT_EQ(makeSecret().size(), 64u);
  EXPECT_NE(makeSecret(), makeSecret());
}

TEST(Secret, WhatIsNoneIsRefused) {
  TemporaryFolder folder;
  auto expect = [](const std::string &error, const char *words) {
    EXPECT_NE(error.find(words), std::string::npos) << error;
  };
  expect(errorOf({{"FSDP_RUN_SECRET", "short"}}), "has 5 bytes");
  expect(errorOf({{"FSDP_RUN_SECRET", std::string(5000, 'x')}}),
         "has more than 4096 bytes");
  expect(errorOf({{"FSDP_RUN_SECRET", "sixteen bytes or more"},
                  {"FSDP_RUN_SECRET_FILE", "/nowhere"}}),
         "are both set");
  expect(errorOf({{"FSDP_RUN_SECRET_FILE", "/nowhere"}}), "No such file");
  expect(errorOf({{"FSDP_RUN_SECRET_FILE", "/dev/zero"}}), "no regular file");
  expect(errorOf({{"FSDP_RUN_SECRET_FILE",
                   fileOf(folder, "sixteen bytes or more", 0644)}}),
         "chmod 600");
}

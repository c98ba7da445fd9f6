// Tests that plan files come back as they were written, and that every
// truncated or altered one is refused.
#include "plan/PlanFile.h"
#include "PlanBuilder.h"
#include "plan/Files.h"
#include "plan/Sha256.h"

#include "ErrorKind.h"

#include <cstdio>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp::plan;
using namespace fsdp::test;

static std::string parseError(const std::string &bytes) {
  try {
    parsePlan(bytes, "a.plan", nullptr);
    return "";
  } catch (const PlanError &error) {
    return error.what();
  }
}

static std::string example() {
  return serializePlan(linearRegression(2, 3, 4, 5)->finish());
}

TEST(PlanFile, ComesBackAsItWasWritten) {
  std::string path =
      ::testing::TempDir() + "plan_file_test." + std::to_string(getpid());
  auto builder = linearRegression(2, 3, 4, 5);
  writePlan(builder->finish(), path);
  LoadedPlan loaded = readPlan(path, nullptr);
  EXPECT_EQ(serializePlan(*loaded.plan), example());
  EXPECT_EQ(loaded.digest.size(), 64u);
  EXPECT_EQ(loaded.plan->programs[0]->name, "step");
  std::remove(path.c_str());
}

TEST(PlanFile, ADeviceOrAPipeIsNotReplaced) {
  std::string path =
      ::testing::TempDir() + "plan_file_pipe." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK);
  fsdp::writeFileAtomically("words", path);
  char read[9] = {};
  EXPECT_EQ(::read(reader, read, sizeof(read)), 5);
  EXPECT_STREQ(read, "words");
  struct stat status;
  EXPECT_TRUE(lstat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode));
  close(reader);
  // Nor is a reader waited for that does not come.
  EXPECT_EQ(
      identifierThrownBy([&] { fsdp::writeFileAtomically("words", path); }),
      "FSDP-E0005");
  std::remove(path.c_str());
}

TEST(PlanFile, ALinkToADescriptorIsNotReplaced) {
  std::string file =
      ::testing::TempDir() + "plan_file_log." + std::to_string(getpid());
  std::string link = file + ".stdout";
  int log = open(file.c_str(), O_CREAT | O_RDWR | O_TRUNC, 0600);
  ASSERT_EQ(write(log, "a ", 2), 2);
  std::string target = "/proc/self/fd/" + std::to_string(log);
  ASSERT_EQ(symlink(target.c_str(), link.c_str()), 0);
  fsdp::writeFileAtomically("word", link);
  ASSERT_EQ(write(log, "!", 1), 1);
  struct stat status;
  EXPECT_TRUE(lstat(link.c_str(), &status) == 0 && S_ISLNK(status.st_mode));
  for (const char *none : {"", "/", ".", "nowhere/at all"})
    EXPECT_FALSE(fsdp::descriptorAt(none)) << none;
  char read[9] = {};
  EXPECT_EQ(pread(log, read, sizeof(read), 0), 7);
  EXPECT_STREQ(read, "a word!");
  close(log);
  std::remove(link.c_str());
  std::remove(file.c_str());
}

TEST(PlanFile, RefusesWhatIsNotAPlan) {
  EXPECT_NE(parseError("").find("'a.plan' is not a plan"), std::string::npos);
  EXPECT_NE(parseError("PK\3\4 a zip").find("is not a plan"),
            std::string::npos);
  EXPECT_NE(parseError("FSDPPLAN").find("is truncated"), std::string::npos);
}

TEST(PlanFile, RefusesAnotherVersionOfItself) {
  std::string bytes = example();
  ++bytes[8]; // behind FSDPPLAN
  EXPECT_NE(parseError(bytes).find("has container version"), std::string::npos);
  EXPECT_EQ(identifierThrownBy([&] { parsePlan(bytes, "a.plan", nullptr); }),
            "FSDP-E0502");
}

TEST(PlanFile, RefusesEveryTruncation) {
  std::string bytes = example();
  for (size_t size = 0; size < bytes.size(); size += 13)
    EXPECT_NE(parseError(bytes.substr(0, size)), "") << size;
  EXPECT_NE(parseError(bytes + "x").find("truncated or altered"),
            std::string::npos);
}

TEST(PlanFile, RefusesEveryFlippedBit) {
  std::string bytes = example();
  for (size_t at = 0; at < bytes.size(); ++at) {
    if (at >= 52 && at < 64)
      continue; // Reserved: zero, and not read.
    std::string altered = bytes;
    altered[at] ^= 1 << (at % 8);
    EXPECT_NE(parseError(altered), "") << "byte " << at;
  }
}

TEST(PlanFile, NeverCrashesOnAlteredContentsWithARightDigest) {
  std::string bytes = example();
  for (size_t at = 64; at < bytes.size(); ++at)
    for (unsigned char flip : {0x01, 0x80, 0xff}) {
      std::string altered = bytes;
      altered[at] ^= flip;
      altered.replace(20, 32, sha256(std::string_view(altered).substr(64)));
      parseError(altered); // Some remain plans: names, numbers.
    }
}

/// The FlatBuffers library's verifier lets it pass, and unpacking would load a
/// number from an address that has none of its type.
TEST(PlanFile, RefusesNumbersThatAreNotAligned) {
  std::string bytes = example();
  auto *plan = flatbuffers::GetMutableRoot<Plan>(bytes.data() + 64);
  // Its length is now what was the first size, and the sizes begin behind that.
  const Value *value = plan->programs()->Get(0)->values()->Get(0);
  auto *field = const_cast<uint8_t *>(
      reinterpret_cast<const flatbuffers::Table *>(value)->GetAddressOf(
          Value::VT_SHAPE));
  auto offset = flatbuffers::ReadScalar<flatbuffers::uoffset_t>(field);
  flatbuffers::WriteScalar<flatbuffers::uoffset_t>(field, offset + 4);
  bytes.replace(20, 32, sha256(std::string_view(bytes).substr(64)));
  EXPECT_NE(parseError(bytes).find("at no multiple of its size"),
            std::string::npos)
      << parseError(bytes);
}

TEST(PlanFile, RefusesAPlanThatDoesNotCheck) {
  auto builder = linearRegression(2, 3, 4, 5);
  builder->finish().version = planVersion + 1;
  EXPECT_NE(parseError(serializePlan(builder->finish()))
                .find("'a.plan' is not a valid plan: C20: it has version " +
                      std::to_string(planVersion + 1)),
            std::string::npos);
}

TEST(PlanFile, NamesAFileThatIsNotThere) {
  try {
    readPlan("/nonexistent/a.plan", nullptr);
    FAIL();
  } catch (const PlanError &error) {
    EXPECT_NE(std::string(error.what())
                  .find("cannot open '/nonexistent/a.plan': No such file"),
              std::string::npos);
  }
}

TEST(PlanFile, RefusesAFolderAndAnEmptyFile) {
  EXPECT_THROW(readPlan(::testing::TempDir(), nullptr), PlanError);
  std::string path =
      ::testing::TempDir() + "plan_file_empty." + std::to_string(getpid());
  std::ofstream(path).close();
  EXPECT_THROW(readPlan(path, nullptr), PlanError);
  std::remove(path.c_str());
}

TEST(PlanFile, OnlyRegularFilesAreRead) {
  std::string fifo =
      ::testing::TempDir() + "plan_fifo." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  for (const std::string &path : {fifo, std::string("/dev/zero")})
    EXPECT_THROW(readPlan(path, nullptr), PlanError) << path;
  std::remove(fifo.c_str());
}

TEST(PlanFile, LeavesNothingWhereItCannotWrite) {
  EXPECT_THROW(
      writePlan(linearRegression(1, 3, 4, 5)->finish(), "/nonexistent/a.plan"),
      PlanError);
}

// Tests that a data set gives the samples asked for, and names what does not
// fit the plan.
#include "data/DataSet.h"

#include "Error.h"
#include "TemporaryFolder.h"
#include "data/SafeTensors.h"

#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

using namespace fsdp;
using fsdp::test::TemporaryFolder;

namespace {

/// x[i] = {2i, 2i + 1} and y[i] = i for samples i from `first`.
void write(const std::string &path, int64_t first, int64_t count,
           int64_t countY) {
  std::vector<float> x(count * 2);
  std::vector<int64_t> y(countY);
  std::iota(x.begin(), x.end(), 2.0f * first);
  std::iota(y.begin(), y.end(), first);
  SafeTensorsWriter writer(path, {{"x", plan::DType::Float32, {count, 2}},
                                  {"y", plan::DType::Int64, {countY}}});
  writer.write("x", x.data());
  writer.write("y", y.data());
  writer.finish();
}

const std::vector<Column> columns = {{"x", plan::DType::Float32, {4, 2}},
                                     {"y", plan::DType::Int64, {4}}};

std::string refusal(const std::string &path,
                    const std::vector<Column> &wanted) {
  try {
    DataSet data(path, wanted);
  } catch (const Error &error) {
    return error.what();
  }
  return "";
}

} // namespace

TEST(DataSet, FilesOfAFolderFollowEachOther) {
  TemporaryFolder folder;
  write(folder / "a.safetensors", 0, 3, 3);
  write(folder / "b.safetensors", 3, 5, 5);
  DataSet data(folder.path, columns);
  EXPECT_EQ(data.samples(), 8);
  const int64_t wanted[] = {7, 0, 3, 2};
  float x[8];
  int64_t y[4];
  data.read(0, wanted, 4, reinterpret_cast<char *>(x));
  data.read(1, wanted, 4, reinterpret_cast<char *>(y));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], wanted[i]);
    EXPECT_EQ(x[2 * i], 2 * wanted[i]);
    EXPECT_EQ(x[2 * i + 1], 2 * wanted[i] + 1);
  }
}

TEST(DataSet, EverythingThatDoesNotFitIsListed) {
  TemporaryFolder folder;
  write(folder / "d", 0, 3, 3);
  std::string text = refusal(folder / "d", {{"x", plan::DType::Float64, {4, 2}},
                                            {"y", plan::DType::Int64, {4, 7}},
                                            {"z", plan::DType::Int64, {4}}});
  for (const char *part :
       {"x is float32[3, 2]", "float64[3, 2]", "y is int64[3]", "no z"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(DataSet, SampleCountsMustAgree) {
  TemporaryFolder folder;
  write(folder / "d", 0, 3, 4);
  EXPECT_NE(refusal(folder / "d", columns).find("4 samples"),
            std::string::npos);
  EXPECT_NE(refusal(folder / "nothing", columns), "");
  EXPECT_NE(refusal(folder.path, columns), "");
}

TEST(DataSet, AFileThatShrinksIsAnError) {
  TemporaryFolder folder;
  std::string path = folder / "a.safetensors";
  write(path, 0, 40000, 40000);
  DataSet data(path, columns);
  const int64_t wanted[] = {5, 6, 39998, 39999};
  float x[8];
  data.read(0, wanted, 4, reinterpret_cast<char *>(x));
  EXPECT_EQ(x[3], 13);
  EXPECT_EQ(x[7], 79999);
  std::filesystem::resize_file(path, 4096);
  try {
    data.read(0, wanted, 4, reinterpret_cast<char *>(x));
    FAIL() << "it was read";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("it became shorter"),
              std::string::npos)
        << error.what();
  }
}

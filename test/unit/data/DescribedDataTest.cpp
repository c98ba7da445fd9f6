// Tests that described files are read by windows and converted, that what a
// description says wrongly is refused, and that a file which shrinks is an
// error.
#include "data/DescribedData.h"

#include "Error.h"
#include "TemporaryFolder.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <numeric>

using namespace fsdp;
using fsdp::test::TemporaryFolder;
using Json = nlohmann::json;

namespace {

/// Rows 0, 1, 2 … in a.bin (20 of them) and 100, 101 … in b.bin (10); x and y
/// are windows of 4 with stride 3, y one row behind x.
struct Described {
  Described() {
    for (auto [name, first, count] :
         {std::tuple("a.bin", 0, 20), std::tuple("b.bin", 100, 10)}) {
      std::vector<uint16_t> rows(count);
      std::iota(rows.begin(), rows.end(), first);
      folder.write(name, std::string(reinterpret_cast<char *>(rows.data()),
                                     2 * rows.size()));
    }
    json = Json::parse(R"({"format": "fsdp-mlir data", "format_version": 1,
      "samples": 8, "order": {"kind": "shuffle"},
      "files": [{"path": "a.bin", "bytes": 40}, {"path": "b.bin", "bytes": 20}],
      "columns": [{"name": "x", "dtype": "uint16", "row": [],
          "window": {"offset": 0, "length": 4, "stride": 3},
          "parts": [[0, 0, 20], [1, 0, 10]]},
        {"name": "y", "dtype": "uint16", "row": [],
          "window": {"offset": 1, "length": 4, "stride": 3},
          "parts": [[0, 0, 20], [1, 0, 10]]}]})");
  }
  DescribedData open(std::vector<Column> columns = {
                         {"y", plan::DType::Int64, {2, 4}},
                         {"x", plan::DType::Float32, {2, 4}}}) {
    return {folder.write("d.json", json.dump()), columns};
  }
  std::string refusal(const std::string &text) {
    try {
      DescribedData data(folder.write("d.json", text),
                         {{"x", plan::DType::Int64, {2, 4}}});
    } catch (const Error &error) {
      return error.what();
    }
    return "";
  }

  TemporaryFolder folder;
  Json json;
};

} // namespace

TEST(DescribedData, WindowsAreReadAndConverted) {
  Described described;
  DescribedData data = described.open();
  // 6 windows of x lie in a.bin, and of y as well; 3 and 2 in b.bin.
  EXPECT_EQ(data.samples(), 8);
  const int64_t wanted[] = {5, 7};
  int64_t y[8];
  float x[8];
  data.read(0, wanted, 2, reinterpret_cast<char *>(y));
  data.read(1, wanted, 2, reinterpret_cast<char *>(x));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(y[i], 16 + i);
    EXPECT_EQ(y[4 + i], 104 + i);
    EXPECT_EQ(x[i], 15 + i);
    EXPECT_EQ(x[4 + i], 103 + i);
  }
}

TEST(DescribedData, AFileThatShrinksIsAnError) {
  Described described;
  DescribedData data = described.open();
  std::filesystem::resize_file(described.folder / "a.bin", 32);
  const int64_t wanted[] = {5};
  int64_t y[4];
  try {
    data.read(0, wanted, 1, reinterpret_cast<char *>(y));
    FAIL() << "it was read";
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("it became shorter"),
              std::string::npos);
  }
}

TEST(DescribedData, NumbersThatWouldChangeAreRefused) {
  Described described;
  for (plan::DType dtype : {plan::DType::Int16, plan::DType::UInt8,
                            plan::DType::Bool, plan::DType::Complex64})
    EXPECT_THROW(described.open({{"x", dtype, {2, 4}}}), Error)
        << plan::dtypeName(dtype);
  EXPECT_NO_THROW(described.open({{"x", plan::DType::Int32, {2, 4}}}));
}

TEST(DescribedData, ADamagedDescriptionIsRefused) {
  Described described;
  std::string whole = described.json.dump();
  EXPECT_EQ(described.refusal(whole), "");
  // Every prefix, and each member without one of its own or with another kind.
  for (size_t n = 0; n < whole.size(); n += 7)
    EXPECT_NE(described.refusal(whole.substr(0, n)), "") << n;
  Json flat = described.json.flatten();
  for (const auto &[pointer, value] : flat.items()) {
    for (const Json &other :
         {Json("word"), Json(-1), Json(1.5), Json(INT64_MAX), Json(nullptr),
          Json::array({Json::object()}), Json::object()}) {
      Json changed = described.json;
      changed[Json::json_pointer(pointer)] = other;
      // y may have any name: nobody reads it here.
      if (other != value && pointer != "/columns/1/name") {
        EXPECT_NE(described.refusal(changed.dump()), "")
            << pointer << " " << other;
      }
    }
  }
  for (const char *pointer :
       {"/samples", "/order", "/order/kind", "/files/0/bytes", "/columns/1/row",
        "/columns/0/window/stride", "/columns/0/parts"}) {
    Json changed = described.json;
    Json::json_pointer at(pointer);
    changed[at.parent_pointer()].erase(at.back());
    EXPECT_NE(described.refusal(changed.dump()), "") << pointer;
    changed = described.json;
    changed[at.parent_pointer()]["more"] = 1;
    EXPECT_NE(described.refusal(changed.dump()), "") << pointer;
  }
  EXPECT_NE(described.refusal(std::string(100000, '[')), "");
}

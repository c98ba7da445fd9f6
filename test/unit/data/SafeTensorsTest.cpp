// Tests that safetensors files are written as the format says, and that nothing
// is read from one that is not.
#include "data/SafeTensors.h"

#include "Error.h"
#include "StoredTensors.h"
#include "TemporaryFolder.h"
#include "device/ScalarType.h"

#include <ATen/ATen.h>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace fsdp;
using fsdp::test::SafeTensors;
using fsdp::test::StoredTensor;
using fsdp::test::TemporaryFolder;

namespace {

std::string file(const std::string &header, const std::string &data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += static_cast<char>(header.size() >> (8 * i));
  return bytes + header + data;
}

std::string refusal(const std::string &bytes) {
  TemporaryFolder folder;
  try {
    SafeTensors read(folder.write("f.safetensors", bytes));
  } catch (const Error &error) {
    EXPECT_NE(std::string(error.what()).find("f.safetensors"),
              std::string::npos);
    return error.what();
  }
  return "";
}

} // namespace

TEST(SafeTensors, WhatIsWrittenIsRead) {
  TemporaryFolder folder;
  const float w[] = {1, 2, 3, 4, 5, 6};
  const uint8_t flags[] = {1, 0, 1};
  {
    SafeTensorsWriter writer(folder / "f",
                             {{"flags", plan::DType::Bool, {3}},
                              {"w", plan::DType::Float32, {2, 3}},
                              {"empty", plan::DType::Int64, {0, 4}},
                              {"one", plan::DType::Float32, {}}});
    // Not there before it is whole.
    EXPECT_FALSE(std::filesystem::exists(folder / "f"));
    writer.write("w", w);
    writer.write("flags", flags);
    writer.write("empty", nullptr);
    writer.write("one", w);
    writer.finish();
  }
  SafeTensors read(folder / "f");
  ASSERT_EQ(read.tensors().size(), 4u);
  const StoredTensor *tensor = read.find("w");
  ASSERT_NE(tensor, nullptr);
  EXPECT_EQ(tensor->shape, (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(std::memcmp(tensor->data, w, sizeof(w)), 0);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor->data) % 8, 0u);
  EXPECT_EQ(read.find("flags")->bytes, 3u);
  EXPECT_EQ(read.find("empty")->bytes, 0u);
  EXPECT_EQ(read.find("absent"), nullptr);
}

TEST(SafeTensors, EveryDTypeIsPyTorchsBeforeAndAfter) {
  for (plan::DType dtype : plan::EnumValuesDType()) {
    const plan::DTypeInfo *row = plan::findDType(dtype);
    SCOPED_TRACE(row->name);
    at::ScalarType type = toScalarType(dtype);
    at::Tensor numbers = at::arange(6, at::kFloat).to(type);
    EXPECT_EQ(numbers.nbytes(), 6 * row->bytes);
    EXPECT_EQ(row->kind == plan::DTypeClass::StoredFloat,
              at::isFloat8Type(type));
    EXPECT_EQ(plan::hasNaN(dtype), !at::isIntegralType(type, true));
    EXPECT_EQ(row->kind == plan::DTypeClass::Complex, at::isComplexType(type));
    TemporaryFolder folder;
    auto write = [&] {
      SafeTensorsWriter writer(folder / "f", {{"x", dtype, {6}}});
      writer.write("x", numbers.const_data_ptr());
      writer.finish();
    };
    if (!row->safetensors) {
      EXPECT_THROW(write(), Error);
      continue;
    }
    write();
    SafeTensors read(folder / "f");
    const StoredTensor *tensor = read.find("x");
    ASSERT_NE(tensor, nullptr);
    EXPECT_EQ(tensor->dtype, dtype);
    EXPECT_EQ(
        std::memcmp(tensor->data, numbers.const_data_ptr(), tensor->bytes), 0);
  }
}

TEST(SafeTensors, ATensorIsWrittenInPieces) {
  TemporaryFolder folder;
  const float w[] = {1, 2, 3, 4};
  std::vector<SafeTensorsWriter::Tensor> types = {
      {"w", plan::DType::Float32, {4}}};
  {
    SafeTensorsWriter writer(folder / "f", types);
    writer.write("w", 12, w + 3, 4);
    writer.write("w", 0, w, 12);
    writer.finish();
  }
  EXPECT_EQ(std::memcmp(SafeTensors(folder / "f").find("w")->data, w, 16), 0);
  SafeTensorsWriter writer(folder / "g", types);
  writer.write("w", 0, w, 12);
  EXPECT_THROW(writer.finish(), Error);
}

TEST(SafeTensors, UnfinishedFilesAreRemoved) {
  TemporaryFolder folder;
  {
    SafeTensorsWriter writer(folder / "f", {{"w", plan::DType::Float32, {2}}});
    EXPECT_THROW(writer.finish(), Error);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  EXPECT_THROW(SafeTensorsWriter(folder / "no/f", {}), Error);
}

TEST(SafeTensors, WhatAKilledWriterLeftIsRemoved) {
  TemporaryFolder folder;
  folder.write("f.partial.1", "half");
  folder.write("fg.partial.1", "another file's");
  SafeTensorsWriter writer(folder / "f", {});
  EXPECT_FALSE(std::filesystem::exists(folder / "f.partial.1"));
  EXPECT_TRUE(std::filesystem::exists(folder / "fg.partial.1"));
  // That of a writer who lives stays.
  EXPECT_THROW(SafeTensorsWriter(folder / "f", {}), Error);
  EXPECT_TRUE(std::filesystem::exists(writer.partialPath()));
}

TEST(SafeTensors, NothingIsWrittenThroughALink) {
  TemporaryFolder folder;
  std::string theirs = folder.write("theirs", "precious"),
              partial = folder / "f.partial." + std::to_string(getpid());
  std::filesystem::create_symlink(theirs, partial);
  EXPECT_THROW(SafeTensorsWriter(folder / "f", {}), Error);
  EXPECT_EQ(std::filesystem::file_size(theirs), 8u);
}

TEST(SafeTensors, ANameThatIsThereTwiceIsRefused) {
  std::string entry = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  std::string said = refusal(file("{" + entry + "," + entry + "}", "1234"));
  EXPECT_NE(said.find("its header has w twice"), std::string::npos) << said;
}

TEST(SafeTensors, OnlyRegularFilesAreRead) {
  TemporaryFolder folder;
  ASSERT_EQ(mkfifo((folder / "fifo").c_str(), 0600), 0);
  for (const std::string &path :
       {folder / "fifo", std::string("/dev/zero"), folder.path})
    EXPECT_THROW(SafeTensorsFile read(path), Error) << path;
}

TEST(SafeTensors, HeadersAreBoundedBeforeTheyAreParsed) {
  EXPECT_NE(refusal(file(std::string(10'000'000, '['), "")).find("lists deep"),
            std::string::npos);
  std::string members;
  for (int i = 0; i < 2'000'000; ++i)
    members += "0,";
  EXPECT_NE(refusal(file("{\"w\":[" + members + "0]}", "")).find("members"),
            std::string::npos);
  // The format's own depth, with brackets in names.
  EXPECT_EQ(refusal(file(R"({"[[[[":{"dtype":"F32","shape":[1],)"
                         R"("data_offsets":[0,4]}})",
                         "1234")),
            "");
}

TEST(SafeTensors, UnknownDTypesAreNamed) {
  EXPECT_NE(refusal(file(R"({"w":{"dtype":"F4_X","shape":[],)"
                         R"("data_offsets":[0,4]}})",
                         "1234"))
                .find("tensor w has the unknown dtype F4_X"),
            std::string::npos);
}

TEST(SafeTensors, MetadataIsKept) {
  TemporaryFolder folder;
  SafeTensors read(
      folder.write("f", file(R"({"__metadata__":{"head.w":"emb.w"}})", "")));
  EXPECT_EQ(read.metadata().at("head.w"), "emb.w");
}

TEST(SafeTensors, BrokenFilesAreRefused) {
  EXPECT_NE(refusal(""), "");
  EXPECT_NE(refusal("1234567"), "");
  EXPECT_NE(refusal(std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8)), "");
  EXPECT_NE(refusal(file("not json", "")), "");
  EXPECT_NE(refusal(file("[]", "")), "");
  auto one = [](const std::string &fields, const std::string &data) {
    return refusal(file("{\"w\":{" + fields + "}}", data));
  };
  const std::string good = R"("dtype":"F32","shape":[2],"data_offsets":[0,8])";
  EXPECT_EQ(one(good, "12345678"), "");
  EXPECT_NE(one(good, "1234567"), "");
  EXPECT_NE(one(good, "123456789"), "");
  EXPECT_NE(
      one(R"("dtype":"F33","shape":[2],"data_offsets":[0,8])", "12345678"), "");
  EXPECT_NE(
      one(R"("dtype":"F32","shape":[3],"data_offsets":[0,8])", "12345678"), "");
  EXPECT_NE(
      one(R"("dtype":"F32","shape":[-2],"data_offsets":[0,8])", "12345678"),
      "");
  EXPECT_NE(
      one(R"("dtype":"F32","shape":[2],"data_offsets":[8,0])", "12345678"), "");
  EXPECT_NE(one(R"("dtype":"F32","shape":[4611686018427387904,4],)"
                R"("data_offsets":[0,0])",
                ""),
            "");
  EXPECT_NE(one(R"("dtype":"F32","shape":[2])", "12345678"), "");
  // Two tensors on the same bytes, and a hole.
  EXPECT_NE(refusal(file(R"({"a":{"dtype":"U8","shape":[2],)"
                         R"("data_offsets":[0,2]},"b":{"dtype":"U8",)"
                         R"("shape":[2],"data_offsets":[1,3]}})",
                         "123")),
            "");
  EXPECT_NE(refusal(file(R"({"a":{"dtype":"U8","shape":[1],)"
                         R"("data_offsets":[0,1]},"b":{"dtype":"U8",)"
                         R"("shape":[1],"data_offsets":[2,3]}})",
                         "123")),
            "");
}

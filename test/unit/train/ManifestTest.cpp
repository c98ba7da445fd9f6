// Tests that a manifest whose writer did not mean well is refused where it is
// read: it has the right hash, and numbers or names that no writer gives.
#include "state/CheckpointFormat.h"

#include "Error.h"
#include "state/Hash.h"

#include <cstdio>
#include <gtest/gtest.h>
#include <string>
#include <utility>

using namespace fsdp;
using namespace fsdp::checkpoint;

namespace {

Manifest oneTensor() {
  Manifest manifest;
  manifest.run.step = 7;
  manifest.run.samples = 11;
  manifest.mesh = {{"shard", 2}};
  manifest.files = {{"rank0.safetensors", 4096, 1, 512}};
  manifest.loaders = {{1, 100, 3}};
  StoredTensor tensor;
  tensor.name = "weight";
  tensor.dtype = plan::DType::Float32;
  tensor.shape = {4, 6};
  Chunk chunk;
  chunk.part = {0, 0, 24};
  chunk.part.localStride = 24;
  tensor.chunks = {chunk};
  manifest.tensors = {tensor};
  return manifest;
}

/// The text of the manifest with `from` replaced, and the hash of that.
std::string with(const std::string &from, const std::string &to) {
  std::string text = writeManifest(oneTensor());
  text.erase(0, text.find(',') + 1);
  EXPECT_NE(text.find(from), std::string::npos) << text;
  text.replace(text.find(from), from.size(), to);
  char hash[17];
  std::snprintf(
      hash, sizeof(hash), "%016llx",
      static_cast<unsigned long long>(hashOf(text.data(), text.size())));
  return std::string("{\"xxh3_64\":\"") + hash + "\"," + text;
}

std::string refusal(const std::string &text) {
  try {
    readManifest(text, "manifest");
    return "";
  } catch (const Error &error) {
    return error.what();
  }
}

} // namespace

TEST(Manifest, IsReadAsItIsWritten) {
  EXPECT_EQ(refusal(writeManifest(oneTensor())), "");
  EXPECT_EQ(refusal(with("\"step\":7", "\"step\":8")), "");
}

/// A cast of such a number to an integer has no defined result.
TEST(Manifest, ANumberThatIsNoneOfItsKindIsRefused) {
  using Pair = std::pair<const char *, const char *>;
  for (auto [from, to] :
       {Pair("\"step\":7", "\"step\":1e300"), Pair("\"step\":7", "\"step\":-1"),
        Pair("\"step\":7", "\"step\":7.5"),
        Pair("\"step\":7", "\"step\":\"seven\""),
        Pair("\"seed\":0", "\"seed\":18446744073709551615"),
        Pair("\"size\":2", "\"size\":4294967296"),
        Pair("\"file\":0", "\"file\":-1"), Pair("\"begin\":0", "\"begin\":0.5"),
        Pair("\"shape\":[4,6]", "\"shape\":[4,6.5]"),
        Pair("\"bytes\":4096", "\"bytes\":true")})
    EXPECT_NE(refusal(with(from, to)).find("is no whole number"),
              std::string::npos)
        << to << ": " << refusal(with(from, to));
}

TEST(Manifest, NoMeshHasSoManyRanksOrNone) {
  for (const char *size : {"0", "4294967295"})
    EXPECT_NE(refusal(with("\"size\":2", std::string("\"size\":") + size))
                  .find("its mesh"),
              std::string::npos)
        << size;
}

TEST(Manifest, ALoaderIsOfARankThatThereWas) {
  for (const char *rank : {"2", "-1"})
    EXPECT_NE(refusal(with("\"rank\":1", std::string("\"rank\":") + rank))
                  .find("it has a loader of rank"),
              std::string::npos)
        << rank;
}

/// Its files lie beside it.
TEST(Manifest, AFileOfAnotherFolderIsRefused) {
  for (const char *name : {"../rank0.safetensors", "/tmp/x", "..", ""})
    EXPECT_NE(
        refusal(with("rank0.safetensors", name)).find("no name of a file"),
        std::string::npos)
        << name;
}

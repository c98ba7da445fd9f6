// An archive's metadata, with the digests that its writer would give it; or,
// where it begins as a zip file does, the list of its records.
#include "FuzzTarget.h"

#include "ArchiveBounds.h"
#include "ArchiveMetadata.h"
#include "plan/Sha256.h"

#include <nlohmann/json.hpp>

using namespace fsdp;

namespace {

/// fsdp.json alone.
class MetadataAlone final : public TorchArchive {
public:
  explicit MetadataAlone(std::string text) {
    names = {"extra/fsdp.json"};
    records = {std::move(text)};
  }
  std::vector<TorchGraph>
  readGraphs(const std::vector<std::string> &) const override {
    return {};
  }
};

std::string withDigests(const std::string &text) {
  nlohmann::json json =
      nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return text;
  json["sha256"] = {{"metadata", ""}, {"records", nlohmann::json::object()}};
  std::string unsealed = json.dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
  const std::string field = "\"metadata\":\"";
  size_t place = unsealed.find(field);
  std::string digest = plan::toHex(plan::sha256(unsealed));
  return unsealed.insert(place + field.size(), digest);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string bytes(reinterpret_cast<const char *>(data), size);
  try {
    if (bytes.compare(0, 2, "PK") == 0)
      checkRecordSizes(bytes);
    else if (checkDepth("extra/fsdp.json", bytes); true)
      readMetadata(MetadataAlone(withDigests(bytes)));
  } catch (const ArchiveError &) {
  }
  return 0;
}

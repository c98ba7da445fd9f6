// Has an archive been altered?

#include "ArchiveDigests.h"

#include "plan/Sha256.h"

#include <algorithm>

using namespace fsdp;

static std::string digest(const std::string &data) {
  return plan::toHex(plan::sha256(data));
}

void fsdp::checkDigests(const TorchArchive &archive,
                        const std::map<std::string, std::string> &digests,
                        const std::string &metadataDigest) {
  std::string text = archive.getRecord(kMetadataRecord);
  std::string field = "\"metadata\":\"";
  size_t position = text.find(field + metadataDigest + "\"");
  if (position == std::string::npos || metadataDigest.size() != 64)
    throw ArchiveError(E::ArchiveDamaged,
                       "has an fsdp.json without its own digest; export again");
  text.erase(position + field.size(), metadataDigest.size());
  if (digest(text) != metadataDigest)
    throw ArchiveError(E::ArchiveDamaged,
                       "is altered: fsdp.json does not have the SHA-256 that "
                       "it states; export again");

  const std::vector<std::string> &names = archive.getRecordNames();
  for (const std::string &name : names) {
    if (name == kMetadataRecord)
      continue;
    auto it = digests.find(name);
    if (it == digests.end())
      throw ArchiveError(E::ArchiveDamaged,
                         "is altered: its record " + name +
                             " is not listed in fsdp.json; export again");
    if (digest(archive.getRecord(name)) != it->second)
      throw ArchiveError(
          E::ArchiveDamaged,
          "is altered: its record " + name +
              " does not have the SHA-256 that fsdp.json states; "
              "export again");
  }
  for (const auto &[name, digest] : digests)
    if (std::find(names.begin(), names.end(), name) == names.end())
      throw ArchiveError(E::ArchiveDamaged,
                         "is altered: its record " + name +
                             ", listed in fsdp.json, is absent; export again");
}

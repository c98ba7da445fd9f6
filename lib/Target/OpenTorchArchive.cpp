// Finds the library that reads archives.

#include "TorchGraph.h"

#include "Error.h"
#include "plan/LoadLibrary.h"

#include <algorithm>

using namespace fsdp;

const std::string &TorchArchive::getRecord(const std::string &name) const {
  auto it = std::find(names.begin(), names.end(), name);
  if (it == names.end())
    throw ArchiveError(E::ArchiveContents,
                       "has no record " + name + "; export again");
  return records[it - names.begin()];
}

std::unique_ptr<TorchArchive> fsdp::openTorchArchive(std::string_view bytes) {
  const TorchArchiveLibrary *library;
  try {
    library = &loadLibrary<TorchArchiveLibrary>();
  } catch (const Error &error) {
    throw ArchiveError(error.kind, error.what());
  }
  return std::unique_ptr<TorchArchive>(library->open(bytes));
}

#include "data/SampleSource.h"

#include "data/DataSet.h"
#include "data/DescribedData.h"

#include <filesystem>

namespace fsdp {

std::unique_ptr<SampleSource> openSamples(const std::string &path,
                                          std::vector<Column> columns) {
  if (std::filesystem::path(path).extension() == ".json")
    return std::make_unique<DescribedData>(path, std::move(columns));
  return std::make_unique<DataSet>(path, std::move(columns));
}

} // namespace fsdp

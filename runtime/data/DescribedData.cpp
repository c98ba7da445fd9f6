#include "data/DescribedData.h"

#include "Error.h"
#include "plan/Files.h"

#include <algorithm>
#include <unistd.h>

namespace fsdp {

static void checkSize(const DataDescription::File &file) {
  auto [descriptor, bytes] = openRegularFile(file.path);
  close(descriptor);
  if (bytes != file.bytes)
    throw Error(
        E::DataChanged,
        file.path + " has " + std::to_string(bytes) + " bytes, and had " +
            std::to_string(file.bytes) +
            " when it was described; copy it here anew, or export again");
}

DescribedData::DescribedData(const std::string &path,
                             std::vector<Column> columns)
    : description(readDataDescription(path)) {
  std::string problems;
  for (const Column &wanted : columns) {
    auto complain = [&](const std::string &what) {
      problems += (problems.empty() ? "" : "; ") + what;
    };
    auto found = std::find_if(
        description.columns.begin(), description.columns.end(),
        [&](const auto &column) { return column.name == wanted.name; });
    if (found == description.columns.end()) {
      complain("it has no " + wanted.name);
      continue;
    }
    std::vector<int64_t> shape = found->sampleShape();
    if (wanted.shape.empty() ||
        !std::equal(shape.begin(), shape.end(), wanted.shape.begin() + 1,
                    wanted.shape.end()) ||
        !converts(found->dtype, wanted.dtype)) {
      std::vector<int64_t> sample(wanted.shape.begin() + !wanted.shape.empty(),
                                  wanted.shape.end());
      complain("samples of " + wanted.name + " are " + found->dtype.name +
               plan::formatShape(shape) + ", the plan reads " +
               plan::dtypeName(wanted.dtype) + plan::formatShape(sample));
      continue;
    }
    int64_t numbers = *plan::numElements(shape);
    readers.push_back({size_t(found - description.columns.begin()),
                       wanted.dtype, numbers,
                       numbers * plan::dtypeBytes(wanted.dtype)});
  }
  if (!problems.empty())
    throw Error(E::DataMismatch, "data in " + path +
                                     " does not fit the plan: " + problems +
                                     "; export both together");
  for (const DataDescription::File &file : description.files)
    checkSize(file);
}

void DescribedData::read(size_t column, const int64_t *samples, int64_t count,
                         char *to) {
  const Reader &reader = readers[column];
  const DataDescription::Column &stands = description.columns[reader.column];
  auto window =
      stands.window.value_or(DataDescription::Window{0, 1, /*stride=*/1});
  uint64_t bytes = window.length * stands.rowBytes;
  bool converted =
      std::string_view(stands.dtype.name) != plan::dtypeName(reader.dtype);
  if (converted)
    stored.resize(count * bytes);
  char *into = converted ? stored.data() : to;
  const std::vector<int64_t> &starts = description.starts;
  for (int64_t i = 0; i < count; ++i, into += bytes) {
    size_t p = std::upper_bound(starts.begin(), starts.end(), samples[i]) -
               starts.begin() - 1;
    const DataDescription::Part &part = stands.parts[p];
    int64_t row = (samples[i] - starts[p]) * window.stride + window.offset;
    files.read(description.files[part.file].path,
               part.begin + row * stands.rowBytes, bytes, into);
  }
  if (converted)
    convert(stored.data(), stands.dtype, count * reader.numbers, reader.dtype,
            to);
}

} // namespace fsdp

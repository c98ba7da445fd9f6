#include "data/DataSet.h"

#include "Error.h"

#include <algorithm>
#include <filesystem>

namespace fsdp {

static std::vector<std::string> filesAt(const std::string &path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored))
    return {path};
  std::vector<std::string> files;
  for (const auto &entry : std::filesystem::directory_iterator(path, ignored))
    if (entry.path().extension() == ".safetensors")
      files.push_back(entry.path().string());
  if (files.empty())
    throw Error(
        E::DataMissing,
        "folder " + path +
            " has no .safetensors file; give a data set that export wrote");
  std::sort(files.begin(), files.end());
  return files;
}

DataSet::DataSet(const std::string &path, std::vector<Column> columns)
    : name(path), data(columns.size()) {
  for (const Column &column : columns) {
    if (column.shape.empty())
      throw Error(
          E::DataMismatch,
          "input " + column.name +
              " is a scalar and cannot come from data; export it as one "
              "that repeats");
    std::vector<int64_t> sample(column.shape.begin() + 1, column.shape.end());
    widths.push_back(*plan::numElements(sample) *
                     plan::dtypeBytes(column.dtype));
  }
  for (const std::string &file : filesAt(path)) {
    files.push_back(std::make_unique<SafeTensorsFile>(file));
    std::string problems;
    int64_t count = -1;
    for (size_t c = 0; c < columns.size(); ++c) {
      const Column &column = columns[c];
      std::vector<int64_t> wanted = column.shape;
      const FileTensor *tensor = files.back()->find(column.name);
      auto complain = [&](const std::string &what) {
        problems += (problems.empty() ? "" : "; ") + what;
      };
      if (!tensor) {
        complain("it has no " + column.name);
        continue;
      }
      bool fits = tensor->dtype == column.dtype &&
                  tensor->shape.size() == wanted.size();
      if (fits)
        wanted[0] = tensor->shape[0];
      if (!fits || tensor->shape != wanted) {
        wanted[0] = tensor->shape.empty() ? 0 : tensor->shape[0];
        complain(column.name + " is " + describe(tensor->dtype, tensor->shape) +
                 ", the plan reads " + describe(column.dtype, wanted));
        continue;
      }
      if (count >= 0 && tensor->shape[0] != count)
        complain(column.name + " has " + std::to_string(tensor->shape[0]) +
                 " samples, " + columns[0].name + " has " +
                 std::to_string(count));
      count = count < 0 ? tensor->shape[0] : count;
      data[c].push_back(*tensor);
    }
    if (!problems.empty())
      throw Error(E::DataMismatch, "data in " + file +
                                       " does not fit the plan: " + problems +
                                       "; export both together");
    starts.push_back(starts.back() + std::max<int64_t>(count, 0));
  }
}

void DataSet::read(size_t column, const int64_t *samples, int64_t count,
                   char *to) {
  uint64_t width = widths[column];
  for (int64_t i = 0, next; i < count; i = next) {
    size_t file = std::upper_bound(starts.begin(), starts.end(), samples[i]) -
                  starts.begin() - 1;
    // Samples that follow each other are read at once. Not from a mapping: a
    // file that becomes shorter would end the process.
    for (next = i + 1; next < count && samples[next] == samples[next - 1] + 1 &&
                       samples[next] < starts[file + 1];)
      ++next;
    files[file]->read(data[column][file], (samples[i] - starts[file]) * width,
                      (next - i) * width, to + i * width);
  }
}

} // namespace fsdp

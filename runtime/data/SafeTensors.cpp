#include "data/SafeTensors.h"

#include "Error.h"
#include "data/SafeTensorsTypes.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fsdp {

// The format's own limit.
static constexpr uint64_t maxHeaderBytes = 100'000'000;

std::string describe(plan::DType dtype, const std::vector<int64_t> &shape) {
  return plan::dtypeName(dtype) + plan::formatShape(shape);
}

SafeTensors::SafeTensors(const std::string &path) : name(path) {
  int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    throw Error("cannot open " + path + ": " + std::strerror(errno));
  struct stat status;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(file);
    throw Error(path + " is not a file; give a safetensors file");
  }
  size = status.st_size;
  void *memory = size < 8
                     ? MAP_FAILED
                     : mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    throw Error(path + " is not a safetensors file: it has " +
                std::to_string(size) + " bytes");
  mapping = static_cast<char *>(memory);
  try {
    parse();
  } catch (...) {
    munmap(mapping, size);
    throw;
  }
}

SafeTensors::~SafeTensors() { munmap(mapping, size); }

void SafeTensors::parse() {
  auto bad = [&](const std::string &why) {
    return Error(name + " is not a whole safetensors file: " + why +
                 "; write it again");
  };
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i)
    header = header << 8 | static_cast<unsigned char>(mapping[i]);
  if (header > maxHeaderBytes || header > size - 8)
    throw bad("its header of " + std::to_string(header) +
              " bytes does not fit in its " + std::to_string(size));
  nlohmann::json json = nlohmann::json::parse(
      mapping + 8, mapping + 8 + header, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw bad("its header is not a JSON object");

  const char *data = mapping + 8 + header;
  uint64_t dataBytes = size - 8 - header;
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const auto &[key, value] : json.items()) {
    if (key == "__metadata__") {
      if (!value.is_object())
        throw bad("__metadata__ is not an object");
      for (const auto &[note, text] : value.items()) {
        if (!text.is_string())
          throw bad("__metadata__ of " + note + " is not a string");
        notes[note] = text.get<std::string>();
      }
      continue;
    }
    auto field = [&](const char *f) -> const nlohmann::json & {
      if (!value.is_object() || !value.contains(f))
        throw bad("tensor " + key + " has no " + f);
      return value[f];
    };
    auto unsignedList = [&](const char *f) {
      std::vector<int64_t> numbers;
      const nlohmann::json &list = field(f);
      if (!list.is_array())
        throw bad("tensor " + key + " has no list of " + f);
      for (const auto &n : list) {
        if (!n.is_number_unsigned() || n.get<uint64_t>() > INT64_MAX)
          throw bad("tensor " + key + " has a bad number in its " + f);
        numbers.push_back(n.get<int64_t>());
      }
      return numbers;
    };
    if (!field("dtype").is_string())
      throw bad("tensor " + key + " has no dtype");
    std::string typeName = field("dtype").get<std::string>();
    auto dtype = safetensorsType(typeName);
    if (!dtype)
      throw bad("tensor " + key + " has the unknown dtype " + typeName);
    std::vector<int64_t> shape = unsignedList("shape");
    std::vector<int64_t> offsets = unsignedList("data_offsets");
    if (offsets.size() != 2 || offsets[0] > offsets[1] ||
        static_cast<uint64_t>(offsets[1]) > dataBytes)
      throw bad("tensor " + key + " lies outside its " +
                std::to_string(dataBytes) + " bytes of data");
    uint64_t bytes = offsets[1] - offsets[0];
    auto span = plan::spanBytes(shape, plan::rowMajorStrides(shape), *dtype);
    if (!plan::numElements(shape) || !span || *span != bytes)
      throw bad("tensor " + key + " has " + std::to_string(bytes) +
                " bytes, not those of " + describe(*dtype, shape));
    entries[key] = {*dtype, shape, data + offsets[0], bytes};
    ranges.emplace_back(offsets[0], offsets[1]);
  }
  std::sort(ranges.begin(), ranges.end());
  uint64_t end = 0;
  for (auto [begin, stop] : ranges) {
    if (begin != end)
      throw bad("its tensors overlap or leave a hole at byte " +
                std::to_string(begin));
    end = stop;
  }
  if (end != dataBytes)
    throw bad("it has " + std::to_string(dataBytes) +
              " bytes of data, its tensors " + std::to_string(end));
}

const StoredTensor *SafeTensors::find(const std::string &key) const {
  auto entry = entries.find(key);
  return entry == entries.end() ? nullptr : &entry->second;
}

SafeTensorsWriter::SafeTensorsWriter(const std::string &path,
                                     std::vector<Tensor> tensors)
    : path(path), temporary(path + ".partial." + std::to_string(getpid())) {
  // Wide types first keep every tensor aligned.
  std::stable_sort(
      tensors.begin(), tensors.end(), [](const Tensor &a, const Tensor &b) {
        return plan::dtypeBytes(a.dtype) > plan::dtypeBytes(b.dtype);
      });
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  uint64_t end = 0;
  for (const Tensor &tensor : tensors) {
    const char *type = safetensorsName(tensor.dtype);
    if (!type)
      throw Error("cannot save " + tensor.name + ": safetensors has no " +
                  plan::dtypeName(tensor.dtype));
    uint64_t bytes =
        *plan::numElements(tensor.shape) * plan::dtypeBytes(tensor.dtype);
    ranges[tensor.name] = {end, bytes};
    json[tensor.name] = {{"dtype", type},
                         {"shape", tensor.shape},
                         {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  file =
      open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0)
    throw Error("cannot write " + path + ": " + std::strerror(errno));
  char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(header.size() >> (8 * i));
  writeAt(length, 8, 0);
  writeAt(header.data(), header.size(), 8);
  for (auto &range : ranges)
    range.second.begin += 8 + header.size();
}

SafeTensorsWriter::~SafeTensorsWriter() {
  if (file < 0)
    return;
  close(file);
  unlink(temporary.c_str());
}

void SafeTensorsWriter::writeAt(const void *data, uint64_t bytes,
                                uint64_t offset) {
  const char *from = static_cast<const char *>(data);
  while (bytes) {
    ssize_t n = pwrite(file, from, bytes, offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      throw Error("cannot write " + path + ": " + std::strerror(errno));
    from += n;
    offset += n;
    bytes -= n;
  }
}

void SafeTensorsWriter::write(const std::string &tensor, const void *data) {
  Range &range = ranges.at(tensor);
  writeAt(data, range.bytes, range.begin);
  range.written = true;
}

void SafeTensorsWriter::finish() {
  for (const auto &[tensor, range] : ranges)
    if (!range.written)
      throw Error("tensor " + tensor + " of " + path + " was not written");
  if (fsync(file) != 0 || close(file) != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    file = -1;
    throw Error("cannot write " + path + ": " + why);
  }
  file = -1;
}

} // namespace fsdp

#include "data/SafeTensorsFile.h"

#include "plan/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <set>
#include <unistd.h>

namespace fsdp {

// The format's own limit.
static constexpr uint64_t maxHeaderBytes = 100'000'000;
// An object of objects with lists; of the largest models a header has some ten
// thousand members.
static constexpr uint64_t maxHeaderDepth = 3, maxHeaderMembers = 2'000'000;

std::string describe(plan::DType dtype, const std::vector<int64_t> &shape) {
  return plan::dtypeName(dtype) + plan::formatShape(shape);
}

SafeTensorsFile::SafeTensorsFile(const std::string &path) : name(path) {
  OpenedFile opened = openRegularFile(path);
  file = opened.descriptor;
  size = opened.bytes;
  try {
    if (size < 8)
      throw Error(E::DataFile, path + " is not a safetensors file: it has " +
                                   std::to_string(size) + " bytes");
    parse();
  } catch (...) {
    close(file);
    throw;
  }
}

SafeTensorsFile::~SafeTensorsFile() { close(file); }

void SafeTensorsFile::parse() {
  auto bad = [&](const std::string &why) {
    return Error(E::DataFile, name + " is not a whole safetensors file: " +
                                  why + "; write it again");
  };
  unsigned char length[8];
  readAt(length, 8, 0);
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i)
    header = header << 8 | length[i];
  if (header > maxHeaderBytes || header > size - 8)
    throw bad("its header of " + std::to_string(header) +
              " bytes does not fit in its " + std::to_string(size));
  std::string text(header, 0);
  readAt(text.data(), header, 8);
  // A parser allocates for each before anybody asks what it is for.
  Nesting nesting = nestingOf(text);
  if (nesting.depth > maxHeaderDepth || nesting.members > maxHeaderMembers)
    throw bad("its header is " + std::to_string(nesting.depth) +
              " lists deep and has up to " + std::to_string(nesting.members) +
              " members");
  // Of names that are there twice the parser would keep the last.
  std::set<std::string> names;
  std::string twice;
  auto noteName = [&](int depth, nlohmann::json::parse_event_t event,
                      const nlohmann::json &name) {
    bool isName = depth == 1 && event == nlohmann::json::parse_event_t::key;
    if (isName && !names.insert(name.get<std::string>()).second)
      twice = name.get<std::string>();
    return true;
  };
  nlohmann::json json = nlohmann::json::parse(text, noteName,
                                              /*allow_exceptions=*/false);
  if (!twice.empty())
    throw bad("its header has " + twice + " twice");
  if (!json.is_object())
    throw bad("its header is not a JSON object");

  dataBegin = 8 + header;
  uint64_t dataBytes = size - dataBegin;
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
    auto dtype = plan::dtypeOfSafetensors(typeName);
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
    entries[key] = {*dtype, shape, 8 + header + offsets[0], bytes};
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

void SafeTensorsFile::readAt(void *data, uint64_t bytes,
                             uint64_t offset) const {
  char *to = static_cast<char *>(data);
  while (bytes) {
    ssize_t n = pread(file, to, bytes, offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      throw Error(E::FileUnreadable,
                  "cannot read " + name + ": " +
                      (n ? std::strerror(errno) : "it became shorter"));
    to += n;
    offset += n;
    bytes -= n;
  }
}

std::string SafeTensorsFile::header() const {
  std::string bytes(dataBegin, 0);
  readAt(bytes.data(), dataBegin, 0);
  return bytes;
}

const FileTensor *SafeTensorsFile::find(const std::string &key) const {
  auto entry = entries.find(key);
  return entry == entries.end() ? nullptr : &entry->second;
}

void SafeTensorsFile::read(const FileTensor &tensor, uint64_t begin,
                           uint64_t bytes, void *data) const {
  readAt(data, bytes, tensor.offset + begin);
}

} // namespace fsdp

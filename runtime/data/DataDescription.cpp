#include "data/DataDescription.h"

#include "Error.h"
#include "plan/Files.h"
#include "plan/PlanTypes.h"

#include <algorithm>
#include <filesystem>
#include <initializer_list>
#include <nlohmann/json.hpp>

namespace fsdp {

using Json = nlohmann::json;

static constexpr uint64_t maxBytes = 256 << 20, maxDepth = 6,
                          maxMembers = 8'000'000;

int64_t DataDescription::Column::samplesIn(const Part &part) const {
  if (!window)
    return part.rows;
  int64_t rest = part.rows - window->offset - window->length;
  return rest < 0 ? 0 : rest / window->stride + 1;
}

std::vector<int64_t> DataDescription::Column::sampleShape() const {
  std::vector<int64_t> shape = row;
  if (window)
    shape.insert(shape.begin(), window->length);
  return shape;
}

namespace {

/// A value in the description, with its path for messages.
class Member {
public:
  Member(const Json &json, std::string place, const std::string &file)
      : json(json), place(std::move(place)), file(file) {}

  [[noreturn]] void refuse(const std::string &why) const {
    throw Error(E::DataFile, file + " is no description of data: " + place +
                                 " " + why + "; export again");
  }
  bool isNull() const { return json.is_null(); }

  /// The member of an object.
  Member at(const char *name) const {
    if (!json.is_object() || !json.contains(name))
      refuse(std::string("has no ") + name);
    return {json.at(name), place + "." + name, file};
  }
  /// Requires an object that has these members and no others.
  const Member &object(std::initializer_list<const char *> names) const {
    if (!json.is_object())
      refuse("is no object");
    for (const char *name : names)
      if (!json.contains(name))
        refuse(std::string("has no ") + name);
    for (const auto &[name, value] : json.items())
      if (std::find(names.begin(), names.end(), name) == names.end())
        refuse("has the unknown member " + name);
    return *this;
  }
  std::vector<Member> list() const {
    if (!json.is_array())
      refuse("is no list");
    std::vector<Member> members;
    for (const Json &member : json)
      members.emplace_back(
          member, place + "[" + std::to_string(members.size()) + "]", file);
    return members;
  }
  std::string text() const {
    if (!json.is_string())
      refuse("is no text");
    return json.get<std::string>();
  }
  int64_t number(int64_t least) const {
    if (!json.is_number_unsigned() || json.get<uint64_t>() > INT64_MAX ||
        json.get<int64_t>() < least)
      refuse("is no whole number from " + std::to_string(least) + " on");
    return json.get<int64_t>();
  }

private:
  const Json &json;
  std::string place;
  const std::string &file;
};

OrderChoice orderOf(const Member &member) {
  struct Named {
    const char *name;
    OrderKind kind;
  };
  std::string kind = member.at("kind").text();
  if (kind == "blocks")
    return {OrderKind::Blocks,
            member.object({"kind", "block"}).at("block").number(1)};
  member.object({"kind"});
  for (const Named &known : {Named{"shuffle", OrderKind::Shuffle},
                             Named{"sequential", OrderKind::Sequential},
                             Named{"random", OrderKind::Random}})
    if (kind == known.name)
      return {known.kind, 0};
  member.refuse("has the unknown kind " + kind);
}

DataDescription::Column columnOf(const Member &member,
                                 const DataDescription &data) {
  member.object({"name", "dtype", "row", "window", "parts"});
  std::string dtype = member.at("dtype").text();
  auto known = findFileDType(dtype);
  if (!known)
    member.refuse("has the unknown dtype " + dtype);
  DataDescription::Column column{
      member.at("name").text(), *known, {}, {}, {}, 0};
  for (const Member &size : member.at("row").list())
    column.row.push_back(size.number(0));
  auto numbers = plan::numElements(column.row);
  if (!numbers || __builtin_mul_overflow(uint64_t(*numbers), known->bytes,
                                         &column.rowBytes))
    member.refuse("has rows of more bytes than there are");
  if (Member window = member.at("window"); !window.isNull()) {
    window.object({"offset", "length", "stride"});
    column.window = {window.at("offset").number(0),
                     window.at("length").number(1),
                     window.at("stride").number(1)};
    if (column.window->length > INT64_MAX - column.window->offset)
      window.refuse("ends behind the last number that there is");
  }
  for (const Member &part : member.at("parts").list()) {
    std::vector<Member> words = part.list();
    if (words.size() != 3)
      part.refuse("is not file, first byte and rows");
    DataDescription::Part range{size_t(words[0].number(0)),
                                uint64_t(words[1].number(0)),
                                words[2].number(0)};
    if (range.file >= data.files.size())
      part.refuse("names no file");
    uint64_t bytes, end;
    if (__builtin_mul_overflow(uint64_t(range.rows), column.rowBytes, &bytes) ||
        __builtin_add_overflow(range.begin, bytes, &end) ||
        end > data.files[range.file].bytes)
      part.refuse("lies outside " + data.files[range.file].path);
    column.parts.push_back(range);
  }
  return column;
}

/// Counts the samples of each part. Columns have equally many; where all are
/// windowed, one may have more windows than another, and the last ones are left
/// out.
void countSamples(DataDescription &data, const Member &columns) {
  bool isWindowed =
      std::all_of(data.columns.begin(), data.columns.end(),
                  [](const auto &column) { return column.window.has_value(); });
  const auto &first = data.columns.front();
  for (const auto &column : data.columns)
    if (column.parts.size() != first.parts.size())
      columns.refuse("have different numbers of parts");
  for (size_t p = 0; p < first.parts.size(); ++p) {
    int64_t count = first.samplesIn(first.parts[p]), end;
    for (const auto &column : data.columns) {
      int64_t here = column.samplesIn(column.parts[p]);
      if (here != count && !isWindowed)
        columns.refuse("differ in part " + std::to_string(p) + ": " +
                       column.name + " has " + std::to_string(here) +
                       " samples, " + first.name + " has " +
                       std::to_string(count));
      count = std::min(count, here);
    }
    if (__builtin_add_overflow(data.starts.back(), count, &end))
      columns.refuse("have more samples than can be counted");
    data.starts.push_back(end);
  }
}

} // namespace

DataDescription readDataDescription(const std::string &path) {
  std::string text = readRegularFile(path, maxBytes);
  Nesting nesting = nestingOf(text);
  Json json;
  if (nesting.depth <= maxDepth && nesting.members <= maxMembers)
    json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  Member all(json, "it", path);
  all.object(
      {"format", "format_version", "samples", "order", "files", "columns"});
  if (all.at("format").text() != "fsdp-mlir data")
    all.refuse("has another format");
  if (all.at("format_version").number(0) != 1)
    all.refuse("has another format_version than 1");
  DataDescription data;
  data.path = path;
  data.order = orderOf(all.at("order"));
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  for (const Member &file : all.at("files").list()) {
    file.object({"path", "bytes"});
    data.files.push_back({(folder / file.at("path").text()).string(),
                          uint64_t(file.at("bytes").number(0))});
  }
  for (const Member &column : all.at("columns").list())
    data.columns.push_back(columnOf(column, data));
  if (data.columns.empty())
    all.refuse("has no column");
  countSamples(data, all.at("columns"));
  if (all.at("samples").number(0) != data.samples())
    all.at("samples").refuse("is not the " + std::to_string(data.samples()) +
                             " of its parts");
  return data;
}

} // namespace fsdp

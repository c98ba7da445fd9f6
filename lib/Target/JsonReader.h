// JSON whose errors name the field.

#ifndef FSDP_LIB_TARGET_JSONREADER_H
#define FSDP_LIB_TARGET_JSONREADER_H

#include "TorchGraph.h"

#include "plan/FormatText.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>

namespace fsdp {

/// A value of `fsdp.json` and the path to it. Every accessor throws
/// ArchiveError where the value is missing or of another type.
class JsonReader {
public:
  JsonReader(const nlohmann::json &value, std::string path = "")
      : value(value), path(std::move(path)) {}

  [[noreturn]] void fail(const std::string &expected) const {
    throw ArchiveError(E::ArchiveContents,
                       "has a bad fsdp.json: " + (path.empty() ? "it" : path) +
                           " is not " + expected + "; export again");
  }

  bool isNull() const { return value.is_null(); }
  bool isString() const { return value.is_string(); }
  bool isBool() const { return value.is_boolean(); }
  bool isArray() const { return value.is_array(); }
  bool isInt() const { return value.is_number_integer(); }
  bool has(const char *key) const {
    return value.is_object() && value.contains(key);
  }

  JsonReader operator[](const std::string &key) const {
    if (!value.is_object())
      fail("an object");
    auto it = value.find(key);
    std::string below = path.empty() ? key : path + "." + key;
    if (it == value.end())
      throw ArchiveError(E::ArchiveContents, "has a bad fsdp.json: " + below +
                                                 " is missing; export again");
    return JsonReader(*it, below);
  }

  std::string asString() const {
    if (!value.is_string())
      fail("a string");
    return value.get<std::string>();
  }

  /// What a name stands for.
  template <typename Value>
  Value asOneOf(const std::map<std::string, Value> &allowed) const {
    return findIn(allowed)->second;
  }

  std::string asOneOf(const std::set<std::string> &allowed) const {
    return *findIn(allowed);
  }

  bool asBool() const {
    if (!value.is_boolean())
      fail("true or false");
    return value.get<bool>();
  }

  int64_t asInt() const {
    bool fits = value.is_number_integer() &&
                (!value.is_number_unsigned() ||
                 value.get<uint64_t>() <= uint64_t(INT64_MAX));
    if (!fits)
      fail("a 64-bit integer");
    return value.get<int64_t>();
  }

  double asDouble() const {
    if (!value.is_number())
      fail("a number");
    return value.get<double>();
  }

  /// Calls `visit` on each member of an array.
  template <typename Visit> void forEach(Visit &&visit) const {
    if (!value.is_array())
      fail("a list");
    for (size_t i = 0; i < value.size(); ++i)
      visit(JsonReader(value[i], path + "[" + std::to_string(i) + "]"));
  }

  /// Calls `visit` with the key and value of each field of an object.
  template <typename Visit> void forEachField(Visit &&visit) const {
    if (!value.is_object())
      fail("an object");
    for (auto it = value.begin(); it != value.end(); ++it)
      visit(it.key(), (*this)[it.key()]);
  }

  std::vector<std::string> asStrings() const {
    std::vector<std::string> result;
    forEach([&](const JsonReader &m) { result.push_back(m.asString()); });
    return result;
  }

private:
  static const std::string &nameOf(const std::string &name) { return name; }
  template <typename Value>
  static const std::string &
  nameOf(const std::pair<const std::string, Value> &named) {
    return named.first;
  }

  /// The member of a set or map of names that the text names.
  template <typename Names>
  typename Names::const_iterator findIn(const Names &allowed) const {
    auto it = allowed.find(asString());
    if (it != allowed.end())
      return it;
    std::string list;
    for (const auto &member : allowed)
      appendListed(list, nameOf(member));
    fail("one of " + list);
  }

  const nlohmann::json &value;
  std::string path;
};

} // namespace fsdp

#endif // FSDP_LIB_TARGET_JSONREADER_H

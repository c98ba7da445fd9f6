// Clusters by name or from TOML.

#include "cost/Cluster.h"
#include "plan/Files.h"
#include "plan/FormatText.h"

#include <algorithm>
#include <cmath>
#include <sstream>

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace fsdp::cost {

double Cluster::flopsPerSecond(plan::DType dtype) const {
  auto it = flops.find(dtype);
  return it == flops.end() ? flops.at(plan::DType::Float32) : it->second;
}

namespace {

/// One table of a file. Every key that is asked for is a known one; those that
/// were not asked for are errors.
class Table {
public:
  Table(const toml::table &table, std::string source, std::string prefix = "")
      : table(table), source(std::move(source)), prefix(std::move(prefix)) {}

  bool has(const char *key) { return table.contains(key); }

  double number(const char *key, bool zeroAllowed = false) {
    known.push_back(key);
    const toml::node *node = table.get(key);
    if (!node)
      fail(key, "is missing");
    std::optional<double> value = node->value<double>();
    if (!value || !std::isfinite(*value) || *value < 0 ||
        (*value == 0 && !zeroAllowed))
      fail(key, std::string("must be a number ") +
                    (zeroAllowed ? "that is not negative" : "above 0"));
    return *value;
  }

  std::string text(const char *key) {
    known.push_back(key);
    const toml::node *node = table.get(key);
    std::optional<std::string> value =
        node ? node->value<std::string>() : std::nullopt;
    if (!value)
      fail(key, node ? "must be a string" : "is missing");
    return *value;
  }

  Table nested(const char *key) {
    known.push_back(key);
    const toml::node *node = table.get(key);
    if (!node || !node->is_table())
      fail(key, node ? "must be a table" : "is missing");
    return {*node->as_table(), source, prefix + key + "."};
  }

  std::vector<std::string> keys() const {
    std::vector<std::string> names;
    for (const auto &entry : table)
      names.emplace_back(entry.first.str());
    return names;
  }

  /// Refuses keys that no one asked for.
  void close() const {
    for (const std::string &key : keys())
      if (std::find(known.begin(), known.end(), key) == known.end()) {
        std::string all;
        for (const std::string &name : known)
          appendListed(all, name);
        fail(key, "does not exist; there are " + all);
      }
  }

  [[noreturn]] void fail(const std::string &key, const std::string &why) const {
    throw ClusterError("cluster \"" + source + "\": key \"" + prefix + key +
                       "\" " + why);
  }

private:
  const toml::table &table;
  std::string source, prefix;
  std::vector<std::string> known;
};

Link readLink(Table table) {
  Link link;
  link.bandwidth = table.number("bandwidth");
  link.latency = table.number("latency", /*zeroAllowed=*/true);
  table.close();
  return link;
}

std::map<plan::DType, double> readFlops(Table table) {
  std::map<plan::DType, double> flops;
  flops[plan::DType::Float32] = table.number("float32");
  for (plan::DType dtype : plan::EnumValuesDType())
    if (plan::isFloating(dtype) && table.has(plan::dtypeName(dtype)))
      flops[dtype] = table.number(plan::dtypeName(dtype));
  table.close();
  return flops;
}

} // namespace

Cluster parseCluster(const std::string &text, const std::string &source) {
  toml::table parsed;
  try {
    parsed = toml::parse(text);
  } catch (const toml::parse_error &error) {
    std::ostringstream message;
    message << "cluster \"" << source << "\" is no TOML: line "
            << error.source().begin.line << ": " << error.description();
    throw ClusterError(message.str());
  }
  Table table(parsed, source);
  Cluster cluster;
  cluster.name = table.text("name");
  double ranks = table.number("ranks_per_node");
  if (ranks != static_cast<unsigned>(ranks))
    table.fail("ranks_per_node", "must be a whole number");
  cluster.ranksPerNode = static_cast<unsigned>(ranks);
  cluster.memoryBandwidth = table.number("memory_bandwidth");
  cluster.launchSeconds = table.number("launch_seconds", true);
  cluster.collectiveSeconds = table.number("collective_seconds", true);
  cluster.skewSeconds = table.number("skew_seconds", true);
  cluster.flops = readFlops(table.nested("flops"));
  cluster.intraNode = readLink(table.nested("intra_node"));
  cluster.interNode = table.has("inter_node")
                          ? readLink(table.nested("inter_node"))
                          : cluster.intraNode;
  if (table.has("host_link"))
    cluster.hostLink = readLink(table.nested("host_link"));
  table.close();
  return cluster;
}

// Of a description: some hundred bytes are usual.
static constexpr uint64_t maxBytes = 1 << 20;

Cluster findCluster(const std::string &nameOrPath) {
  std::string names;
  for (const Cluster &preset : presets()) {
    if (preset.name == nameOrPath)
      return preset;
    appendListed(names, preset.name);
  }
  std::string text;
  try {
    text = readRegularFile(nameOrPath, maxBytes);
  } catch (const Error &) {
    throw ClusterError("cluster=" + nameOrPath +
                       " is neither a preset nor a file; the presets are " +
                       names);
  }
  return parseCluster(text, nameOrPath);
}

} // namespace fsdp::cost

// What kernels take on one machine, as a file.

#include "cost/KernelTable.h"
#include "plan/Files.h"

#include <cmath>
#include <cstdio>
#include <fstream>
#include <sstream>

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace fsdp::cost {

// A plan of a thousand different products has some hundred thousand bytes.
static constexpr uint64_t maxTableBytes = 1 << 24;
static constexpr int64_t tableFormat = 1;
static constexpr double leastGain = 1.03;

std::string cpuName(const std::string &cpuinfo) {
  std::map<std::string, std::string> fields; // of the first processor
  std::istringstream lines(cpuinfo);
  for (std::string line; std::getline(lines, line) && !line.empty();) {
    size_t colon = line.find(':');
    size_t end = line.find_last_not_of(" \t", colon - 1);
    if (colon != std::string::npos && end != std::string::npos)
      fields[line.substr(0, end + 1)] =
          colon + 2 < line.size() ? line.substr(colon + 2) : "";
  }
  // ARM's has numbers in place of a name.
  if (!fields.count("model name"))
    return "CPU " + fields["CPU implementer"] + " " + fields["CPU part"];
  std::string flags = " " + fields["flags"] + " ";
  const char *vectors = flags.find(" avx512f ") != std::string::npos ? "avx512"
                        : flags.find(" avx2 ") != std::string::npos  ? "avx2"
                                                                     : "sse";
  return fields["model name"] + " (family " + fields["cpu family"] +
         ", model " + fields["model"] + ", " + vectors + ")";
}

bool lacksAvx512(const std::string &cpuName) {
  auto has = [&](const char *vectors) {
    return cpuName.find(vectors) != std::string::npos;
  };
  return has(", avx2)") || has(", sse)");
}

Machine thisMachine() {
  std::ifstream file("/proc/cpuinfo");
  std::stringstream text;
  text << file.rdbuf();
  return {cpuName(text.str()), FSDP_TORCH};
}

double KernelTable::seconds(const Product &product,
                            const Kernel &kernel) const {
  return products.at(product.text()).at(std::string(kernel.name));
}

const Kernel *KernelTable::fastest(const Product &product) const {
  auto measured = products.find(product.text());
  if (measured == products.end())
    return nullptr;
  const Kernel *best = nullptr;
  double least = 0;
  for (const Kernel *kernel : kernelsOf(product.family)) {
    auto seconds = measured->second.find(std::string(kernel->name));
    if (seconds == measured->second.end()) {
      if (kernel->exact)
        return nullptr;
      continue;
    }
    double compared = seconds->second * (kernel->exact ? 1 : leastGain);
    if (!best || compared < least) {
      best = kernel;
      least = compared;
    }
  }
  return best;
}

namespace {

[[noreturn]] void fail(const std::string &source, const std::string &what) {
  throw Error(E::KernelTable, "kernel table \"" + source + "\": " + what +
                                  "; measure again with fsdp-run --tune");
}

template <typename Value>
Value read(const toml::table &table, const char *key,
           const std::string &source) {
  std::optional<Value> value = table[key].value<Value>();
  if (!value)
    fail(source,
         "key \"" + std::string(key) + "\" is missing or no " +
             (std::is_same_v<Value, std::string> ? "string" : "number"));
  return *value;
}

} // namespace

KernelTable parseKernelTable(const std::string &text,
                             const std::string &source) {
  toml::table parsed;
  try {
    parsed = toml::parse(text);
  } catch (const toml::parse_error &error) {
    fail(source, "line " + std::to_string(error.source().begin.line) +
                     " is no TOML: " + std::string(error.description()));
  }
  if (read<int64_t>(parsed, "format", source) != tableFormat)
    fail(source, "has another format than this version's");
  KernelTable table;
  table.machine = {read<std::string>(parsed, "cpu", source),
                   read<std::string>(parsed, "pytorch", source),
                   int(read<int64_t>(parsed, "threads", source))};
  const toml::table *products = parsed["products"].as_table();
  if (!products)
    fail(source, "key \"products\" is missing or no table");
  for (const auto &[product, kernels] : *products) {
    std::string name(product.str());
    if (!kernels.is_table())
      fail(source, "product \"" + name + "\" has no times");
    for (const auto &[kernel, seconds] : *kernels.as_table()) {
      std::optional<double> value = seconds.value<double>();
      if (!value || !std::isfinite(*value) || !(*value > 0))
        fail(source, "the time of product \"" + name + "\" by " +
                         std::string(kernel.str()) +
                         " is no number of seconds above 0");
      table.products[name][std::string(kernel.str())] = *value;
    }
  }
  return table;
}

KernelTable readKernelTable(const std::string &path) {
  return parseKernelTable(readRegularFile(path, maxTableBytes), path);
}

/// A TOML string; a processor may call itself anything.
static std::string quote(const std::string &text) {
  std::string quoted;
  for (char c : text)
    if (c == '"' || c == '\\')
      (quoted += '\\') += c;
    else if (static_cast<unsigned char>(c) >= ' ')
      quoted += c;
  return "\"" + quoted + "\"";
}

std::string printKernelTable(const KernelTable &table) {
  std::string text =
      "# Seconds of products by each kernel, the least of many, as\n"
      "# fsdp-run --tune measured them (docs/kernels.md).\n"
      "format = " +
      std::to_string(tableFormat) + "\ncpu = " + quote(table.machine.cpu) +
      "\npytorch = " + quote(table.machine.pytorch) +
      "\nthreads = " + std::to_string(table.machine.threads) +
      "\n\n[products]\n";
  for (const auto &[product, kernels] : table.products) {
    text += quote(product) + " = {";
    const char *separator = " ";
    for (const auto &[kernel, seconds] : kernels) {
      char number[32];
      std::snprintf(number, sizeof(number), "%.3e", seconds);
      text += separator + kernel + " = " + number;
      separator = ", ";
    }
    text += " }\n";
  }
  return text;
}

void checkMachine(const KernelTable &table, const Machine &machine,
                  const std::string &source) {
  auto misfit = [&](const std::string &theirs, const std::string &ours) {
    throw Error(
        E::KernelTable,
        "kernel table \"" + source + "\" was measured on " + theirs +
            ", and this is " + ours +
            "; measure this one with fsdp-run --tune, into another file");
  };
  const Machine &measured = table.machine;
  if (measured.cpu != machine.cpu)
    misfit(measured.cpu, machine.cpu);
  if (measured.pytorch != machine.pytorch)
    misfit("PyTorch " + measured.pytorch, "PyTorch " + machine.pytorch);
  if (machine.threads && measured.threads != machine.threads)
    misfit(std::to_string(measured.threads) + " threads",
           std::to_string(machine.threads));
}

} // namespace fsdp::cost

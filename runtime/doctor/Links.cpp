#include "doctor/Links.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace fsdp::doctor {

namespace {

using Path = std::filesystem::path;

/// A file's first line; empty where there is none.
std::string lineOf(const Path &file) {
  std::string line;
  std::getline(std::ifstream(file), line);
  return line;
}

int numberOf(const Path &file, int otherwise) {
  std::string line = lineOf(file);
  char *end = nullptr;
  long number = std::strtol(line.c_str(), &end, 10);
  return end == line.c_str() ? otherwise : static_cast<int>(number);
}

/// What a folder has, by name; nothing where there is no such folder.
std::vector<Path> entriesOf(const Path &folder) {
  std::error_code error;
  std::vector<Path> entries;
  std::filesystem::directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  std::sort(entries.begin(), entries.end());
  return entries;
}

/// Where a device of PCIe is plugged in.
Link linkOf(const char *kind, const std::string &name, const Path &device) {
  Link link;
  link.kind = kind;
  link.name = name;
  link.pcie = lineOf(device / "current_link_speed");
  link.lanes = numberOf(device / "current_link_width", 0);
  link.mostLanes = numberOf(device / "max_link_width", 0);
  link.numaNode = numberOf(device / "numa_node", -1);
  return link;
}

bool isGpu(const Path &device) {
  constexpr const char *nvidia = "0x10de", *display = "0x03";
  return lineOf(device / "vendor") == nvidia &&
         lineOf(device / "class").rfind(display, 0) == 0;
}

} // namespace

std::string Link::text() const {
  std::string text = name, comma = " ";
  auto add = [&](const std::string &what) {
    text += comma + what;
    comma = ", ";
  };
  if (!rate.empty())
    add(rate);
  if (lanes > 0)
    add(pcie + " x" + std::to_string(lanes) +
        (lanes < mostLanes ? " of " + std::to_string(mostLanes) : ""));
  if (numaNode >= 0)
    add("NUMA node " + std::to_string(numaNode));
  return text;
}

std::vector<Link> findLinks(const std::string &system) {
  std::vector<Link> links;
  for (const Path &device : entriesOf(Path(system) / "bus/pci/devices"))
    if (isGpu(device))
      links.push_back(linkOf("GPU", device.filename(), device));
  for (const Path &card : entriesOf(Path(system) / "class/net"))
    if (std::filesystem::exists(card / "device")) // lo and bridges have none
      links.push_back(linkOf("network", card.filename(), card / "device"));
  for (const Path &adapter : entriesOf(Path(system) / "class/infiniband"))
    for (const Path &port : entriesOf(adapter / "ports")) {
      std::string name =
          adapter.filename().string() + " port " + port.filename().string();
      Link link = linkOf("RDMA", name, adapter / "device");
      link.rate = lineOf(port / "rate");
      std::string state = lineOf(port / "state"); // "4: ACTIVE"
      if (size_t colon = state.find(": "); colon != std::string::npos)
        link.rate += ", " + state.substr(colon + 2);
      links.push_back(link);
    }
  return links;
}

} // namespace fsdp::doctor

#include "comm/ControlGroup.h"

#include <fstream>
#include <thread>

namespace fsdp {

std::vector<std::filesystem::path>
controlGroupFolders(const std::string &controller) {
  std::vector<std::filesystem::path> folders;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos)
      continue;
    std::string names = line.substr(first + 1, second - first - 1);
    std::string path = line.substr(second + 1);
    bool isUnified = names.empty();
    if (!isUnified &&
        ("," + names + ",").find("," + controller + ",") == std::string::npos)
      continue;
    std::filesystem::path root = "/sys/fs/cgroup";
    if (!isUnified)
      root /= controller;
    // Within a container the path may be another one's, and the root ours.
    for (std::filesystem::path at = path; at.has_relative_path();
         at = at.parent_path())
      folders.push_back(root / at.relative_path());
    folders.push_back(root);
  }
  return folders;
}

std::vector<double> numbersOf(const std::filesystem::path &file) {
  std::ifstream stream(file);
  std::vector<double> numbers;
  for (double number = 0; stream >> number;)
    numbers.push_back(number);
  return numbers;
}

double cpuQuota() {
  double least = 0;
  auto take = [&](double cores) {
    if (cores > 0 && (least == 0 || cores < least))
      least = cores;
  };
  for (const std::filesystem::path &folder : controlGroupFolders("cpu")) {
    auto both = numbersOf(folder / "cpu.max");
    auto quota = numbersOf(folder / "cpu.cfs_quota_us");
    auto period = numbersOf(folder / "cpu.cfs_period_us");
    if (both.size() == 2)
      take(both[0] / both[1]);
    if (quota.size() == 1 && period.size() == 1)
      take(quota[0] / period[0]);
  }
  return least;
}

cpu_set_t allowedCpus() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  if (sched_getaffinity(0, sizeof(cpus), &cpus) != 0)
    for (unsigned cpu = 0; cpu < std::thread::hardware_concurrency(); ++cpu)
      CPU_SET(cpu, &cpus);
  return cpus;
}

} // namespace fsdp

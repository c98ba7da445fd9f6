#include "doctor/HostFacts.h"

#include "comm/HostProcess.h"
#include "device/Device.h"
#include "plan/LoadedLibraries.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sched.h>
#include <sstream>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace fsdp::doctor {

namespace {

/// What a variable's name begins with, if it may decide how a run goes.
constexpr const char *prefixes[] = {
    "CUDA_",      "FSDP_",   "GLOO_", "GOMP_", "KMP_", "LD_LIBRARY_PATH",
    "LD_PRELOAD", "MASTER_", "MKL_",  "NCCL_", "OMP_", "ONEDNN_",
    "TORCH_NCCL_"};

std::map<std::string, std::string> findVariables() {
  std::map<std::string, std::string> found;
  for (char **entry = environ; *entry; ++entry) {
    std::string text = *entry;
    bool matters = std::any_of(
        std::begin(prefixes), std::end(prefixes),
        [&](const char *prefix) { return text.rfind(prefix, 0) == 0; });
    if (size_t equals = text.find('='); matters && equals != std::string::npos)
      found[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return found;
}

/// The rest of the first line that begins with a word: "model name : X".
std::string lineOf(const char *file, const std::string &word) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);)
    if (line.compare(0, word.size(), word) == 0) {
      size_t begin = line.find_first_not_of(" \t:", word.size());
      return begin == std::string::npos ? "" : line.substr(begin);
    }
  return "";
}

uint64_t kibibytes(const char *what) {
  return std::strtoull(lineOf("/proc/meminfo", what).c_str(), nullptr, 10)
         << 10;
}

/// The folders of this process's group of a controller ("cpu"), its own first;
/// of version 2 of cgroups where the controller has none of version 1.
std::vector<std::filesystem::path> groupFolders(const std::string &controller) {
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

/// The numbers that a file begins with; none for "max".
std::vector<double> numbersOf(const std::filesystem::path &file) {
  std::ifstream stream(file);
  std::vector<double> numbers;
  for (double number = 0; stream >> number;)
    numbers.push_back(number);
  return numbers;
}

double findQuota() {
  double least = 0;
  auto take = [&](double cores) {
    if (cores > 0 && (least == 0 || cores < least))
      least = cores;
  };
  for (const std::filesystem::path &folder : groupFolders("cpu")) {
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

Room findMemory() {
  Room room = {kibibytes("MemAvailable"), kibibytes("MemTotal")};
  for (const std::filesystem::path &folder : groupFolders("memory"))
    for (auto [limitFile, usedFile] :
         {std::pair("memory.max", "memory.current"),
          std::pair("memory.limit_in_bytes", "memory.usage_in_bytes")}) {
      auto limit = numbersOf(folder / limitFile);
      auto used = numbersOf(folder / usedFile);
      if (limit.size() != 1 || used.size() != 1 || limit[0] >= room.total)
        continue;
      room.total = static_cast<uint64_t>(limit[0]);
      // What files fill is given back where it is needed.
      double files = std::strtod(
          lineOf((folder / "memory.stat").c_str(), "inactive_file").c_str(),
          nullptr);
      double left = std::max(0., limit[0] - used[0] + files);
      room.free = std::min(room.free, static_cast<uint64_t>(left));
    }
  return room;
}

Room findSharedMemory() {
  struct statvfs found = {};
  if (statvfs("/dev/shm", &found) != 0)
    return {};
  return {uint64_t(found.f_bavail) * found.f_frsize,
          uint64_t(found.f_blocks) * found.f_frsize};
}

uint64_t limitOf(__rlimit_resource_t resource) {
  rlimit limit = {};
  getrlimit(resource, &limit);
  return limit.rlim_cur;
}

std::string describeKernel() {
  utsname found = {};
  uname(&found);
  return std::string(found.sysname) + " " + found.release + " " + found.machine;
}

int usableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0)
    return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

} // namespace

HostFacts findHostFacts(const std::string &version, const std::string &pytorch,
                        const std::string &rendezvousHost) {
  HostFacts facts;
  facts.host = hostName();
  HostIdentity identity = thisHost();
  facts.machine = identity.boot + " " + facts.host;
  facts.version = version;
  facts.pytorch = pytorch;
  facts.variables = findVariables(); // before NCCL is loaded and adds its own
  facts.cuda = describeCuda();
  facts.nccl = loadedLibraries("libnccl.so");
  facts.kernel = describeKernel();
  facts.processor = lineOf("/proc/cpuinfo", "model name");
  facts.cores = usableCores();
  facts.coresOfHost = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.quota = findQuota();
  facts.memory = findMemory();
  facts.sharedMemory = findSharedMemory();
  facts.lockable = limitOf(RLIMIT_MEMLOCK);
  facts.openFiles = limitOf(RLIMIT_NOFILE);
  facts.interfaces = findInterfaces();
  facts.variables = findVariables();
  facts.listens =
      listeningAddress(facts.interfaces, facts.variables["GLOO_SOCKET_IFNAME"]);
  if (facts.variables["GLOO_SOCKET_IFNAME"].empty())
    facts.variables.erase("GLOO_SOCKET_IFNAME");
  if (!rendezvousHost.empty())
    facts.reaches = addressTowards(rendezvousHost);
  return facts;
}

double measureCompute() {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t size = 256;
  at::Tensor a = at::empty({size, size}).fill_(0.5), b = a.clone();
  at::mm(a, b);
  auto begin = Clock::now();
  double seconds = 0;
  int64_t products = 0;
  for (; seconds < 0.2; ++products) {
    at::mm(a, b);
    seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  }
  return 2. * size * size * size * products / seconds;
}

} // namespace fsdp::doctor

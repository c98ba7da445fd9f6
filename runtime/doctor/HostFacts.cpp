#include "doctor/HostFacts.h"

#include "comm/ControlGroup.h"
#include "comm/HostProcess.h"
#include "device/Device.h"
#include "launch/Secret.h"
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

/// Without the run's secret: people send each other what the doctor prints.
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
  found.erase(secretVariable);
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

Room findMemory() {
  Room room = {kibibytes("MemAvailable"), kibibytes("MemTotal")};
  for (const std::filesystem::path &folder : controlGroupFolders("memory"))
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
  cpu_set_t allowed = allowedCpus();
  facts.kernel = describeKernel();
  facts.processor = lineOf("/proc/cpuinfo", "model name");
  facts.cores = CPU_COUNT(&allowed);
  facts.coresOfHost = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  facts.quota = cpuQuota();
  facts.memory = findMemory();
  facts.sharedMemory = findSharedMemory();
  facts.lockable = limitOf(RLIMIT_MEMLOCK);
  facts.openFiles = limitOf(RLIMIT_NOFILE);
  facts.interfaces = findInterfaces();
  facts.links = findLinks();
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

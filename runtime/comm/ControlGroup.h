// What a control group (cgroup) of Linux, such as a container's, leaves to a
// process.

#ifndef FSDP_RUNTIME_COMM_CONTROLGROUP_H
#define FSDP_RUNTIME_COMM_CONTROLGROUP_H

#include <filesystem>
#include <sched.h>
#include <string>
#include <vector>

namespace fsdp {

/// The folders of this process's group of a controller ("cpu"), its own first;
/// of version 2 of cgroups where the controller has none of version 1.
std::vector<std::filesystem::path>
controlGroupFolders(const std::string &controller);

/// The numbers that a file begins with; none for "max", and none where there is
/// no such file.
std::vector<double> numbersOf(const std::filesystem::path &file);

/// How many CPUs' worth of time the process may use; 0: no group says.
double cpuQuota();

/// The CPUs that the process may run on: all of them where the system does not
/// say.
cpu_set_t allowedCpus();

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_CONTROLGROUP_H

// What a rank finds out about its host, and what it measures there.
#ifndef FSDP_RUNTIME_DOCTOR_HOSTFACTS_H
#define FSDP_RUNTIME_DOCTOR_HOSTFACTS_H

#include "doctor/Links.h"
#include "doctor/Networks.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fsdp::doctor {

/// Bytes of some memory, and how many of them are free.
struct Room {
  uint64_t free = 0, total = 0;
};

struct HostFacts {
  std::string host;
  std::string machine; // another one for each host, whatever it is called
  std::string version, pytorch;
  std::string cuda;              // describeCuda()
  std::vector<std::string> nccl; // copies that the process has loaded: files
  std::string kernel, processor;
  int cores = 0, coresOfHost = 0;       // this process may use; there are
  double quota = 0;                     // cores' worth of time (cgroup); 0: all
  Room memory, sharedMemory;            // of the host and its cgroup; /dev/shm
  uint64_t lockable = 0, openFiles = 0; // RLIMIT_MEMLOCK, RLIMIT_NOFILE
  std::vector<Interface> interfaces;
  std::vector<Link> links;
  std::string listens; // listeningAddress()
  std::string reaches; // addressTowards() the rendezvous; empty: unknown
  std::map<std::string, std::string> variables;
};

/// This process's. `rendezvousHost`: empty where ranks meet in a file.
HostFacts findHostFacts(const std::string &version, const std::string &pytorch,
                        const std::string &rendezvousHost);

/// Multiply-adds of a matrix product in float32, as operations per second of
/// this rank; takes a fifth of a second.
double measureCompute();

} // namespace fsdp::doctor

#endif // FSDP_RUNTIME_DOCTOR_HOSTFACTS_H

#include "Ranks.h"

#include "Decline.h"
#include "EndProgram.h"
#include "Error.h"
#include "RunDoctor.h"
#include "Tune.h"
#include "comm/ConnectRanks.h"
#include "comm/LocalRanks.h"
#include "launch/Deadline.h"
#include "launch/ErrorReport.h"
#include "launch/Rendezvous.h"
#include "launch/Secret.h"
#include "launch/Supervisor.h"
#include "launch/WorldSize.h"
#include "operators/RunnablePlan.h"
#include "plan/Names.h"
#include "plan/PlanFile.h"
#include "train/Trainer.h"

#include <ATen/Parallel.h>
#include <atomic>
#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>

namespace fsdp {

namespace {

/// The error of one rank of several, with what it is worth.
struct Failure {
  int rank;
  RankError error;
};

/// Tells the other ranks of the current exception: they report whose failure
/// came first.
void leave(const Connection &connection) {
  if (!connection.communicator)
    return;
  try {
    throw;
  } catch (const PeerFailure &failure) {
    connection.communicator->leave(failure.what());
  } catch (...) {
    connection.communicator->abort(describeCurrentError().message);
  }
}

/// One compute thread per rank unless the user says otherwise, as torchrun
/// does. Per thread of ours, since OpenMP counts that way.
void limitThreads() {
  if (!std::getenv("OMP_NUM_THREADS"))
    at::set_num_threads(1);
}

std::string describe(const std::optional<cost::Link> &link) {
  return link ? std::to_string(link->bandwidth) + "," +
                    std::to_string(link->latency)
              : std::string("none");
}

std::vector<DeviceFlag> deviceFlags(const CommandLine &line) {
  constexpr auto cpus = plan::DeviceKind::Cpu, gpus = plan::DeviceKind::Cuda;
  const LaunchOptions &launch = line.launch;
  return {
      transportFlag("--comm ", launch.transport),
      {"--single-communicator", launch.backend.singleCommunicator, gpus},
      {"--throttle", launch.throttle.has_value(), cpus},
      {"--host-streams threads",
       launch.backend.hostStreams == HostStreamKind::Threads, cpus},
      {"--cuda-graph", line.run.graph, gpus},
      {"--poison", line.run.poison, cpus},
  };
}

/// What would part the ranks if it differed.
Agreement agreementOf(const plan::LoadedPlan &loaded, const CommandLine &line) {
  std::string flags = agreementOf(line.run) +
                      " comm=" + std::to_string(int(line.launch.transport)) +
                      " throttle=" + describe(line.launch.throttle) +
                      " single-communicator=" +
                      std::to_string(line.launch.backend.singleCommunicator) +
                      " timeout=" + std::to_string(line.launch.patienceSeconds);
  // Versions first: plans that other versions compiled differ for that reason.
  return {{"version of fsdp-run", FSDP_VERSION},
          {"version of PyTorch", FSDP_TORCH},
          {"plan", loaded.digest},
          {"set of flags", flags}};
}

CommOptions commOptions(const CommandLine &line, const plan::PlanT &plan,
                        const Transports &transports) {
  CommOptions options;
  options.transport = transports.hosts;
  options.throttle = line.launch.throttle;
  options.patience = patienceOf(plan, line.launch.patienceSeconds);
  return options;
}

/// The run's first line.
void printRanks(const Connection &connection, const OpenedBackend &opened,
                ProgressKind progress) {
  const Communicator &communicator = *connection.communicator;
  if (communicator.rank() != 0 || progress == ProgressKind::None ||
      progress == ProgressKind::Notes || progress == ProgressKind::Json)
    return;
  std::string reason =
      opened.reason.empty() ? connection.reason : opened.reason;
  if (communicator.size() > 1)
    std::printf("%d ranks over %s: %s\n", communicator.size(),
                opened.transport.c_str(), reason.c_str());
  else
    std::printf("1 rank%s%s\n", opened.reason.empty() ? "" : " ",
                opened.reason.c_str());
  std::fflush(stdout);
}

/// Trains a rank that is connected to the others. Returns the process's exit
/// status.
int trainRank(const CommandLine &line, const plan::LoadedPlan &loaded,
              const Transports &transports, const Connection &connection,
              const LocalPlace &place) {
  Communicator &communicator = *connection.communicator;
  OpenedBackend opened = openBackend(*loaded.plan, communicator,
                                     line.launch.backend, transports, place);
  auto entered = opened.backend->enter();
  printRanks(connection, opened, line.run.progress);
  int signal =
      train(loaded, line.run, communicator, *opened.backend, removeWhenKilled);
  return signal ? 128 + signal : 0;
}

int runThreads(const CommandLine &line, const plan::LoadedPlan &loaded,
               const Transports &transports, int size) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  auto local = std::make_shared<LocalRanks>(size);
  std::mutex mutex;
  std::optional<Failure> first;
  std::atomic<int> status = 0;
  auto body = [&](int rank) {
    limitThreads();
    Connection connection;
    try {
      CommOptions options = commOptions(line, *loaded.plan, transports);
      // Nothing of this process ends a transfer between its GPUs.
      options.patience.atLimit = [rank](const std::string &why) {
        printError(why, E::PeerSilent, rank);
        endProgram(1);
      };
      connection =
          connectRanks(*store, rank, size, options, {"", /*loopback=*/true});
      int ended =
          trainRank(line, loaded, transports, connection, {rank, local});
      if (rank == 0)
        status = ended;
    } catch (...) {
      RankError error = describeCurrentError();
      {
        std::lock_guard<std::mutex> lock(mutex);
        if (!first || (first->error.consequence && !error.consequence))
          first = Failure{rank, error};
      }
      local->fail(rank); // wakes those who wait for its device
      leave(connection);
    }
  };
  if (size == 1) {
    body(0);
  } else {
    // Not first by several threads at once: PyTorch makes a pool then.
    limitThreads();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < size; ++rank)
      threads.emplace_back(body, rank);
    for (std::thread &thread : threads)
      thread.join();
  }
  if (!first) {
    if (status)
      printError(describeStop(status), E::Stopped);
    return status;
  }
  printError(first->error.message, first->error.kind,
             size > 1 ? first->rank : -1);
  writeLauncherErrorFile(first->error);
  return 1;
}

/// A rank, in a copy of the process that supervises it.
[[noreturn]] void beginRank(int argc, char **argv) {
  // For its threads, and for the programs that it starts: PyTorch, which is
  // loaded, has read the variable.
  limitThreads();
  setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  CommandLine line;
  std::optional<int> status = parseCommandLine(argc, argv, line);
  endProgram(status ? *status : runRanks(line, argc, argv));
}

/// `copies` says that ranks may be copies of this process, for which PyTorch is
/// loaded once. Ranks on GPUs may not: a driver that has been asked for them
/// does not work in a copy.
int superviseProcesses(const CommandLine &line, bool copies, int argc,
                       char **argv) {
  const LaunchOptions &launch = line.launch;
  SupervisedRanks ranks;
  ranks.count = launch.nproc;
  ranks.firstRank = launch.nodeRank * launch.nproc;
  ranks.worldSize = launch.nodes * launch.nproc;
  ranks.command.assign(argv, argv + argc);
  ranks.begin = copies ? beginRank : nullptr;
  ranks.command.push_back("--supervisor=%ERROR%");
  if (launch.rendezvous.empty())
    ranks.command.push_back("--rendezvous=" + (launch.nodes == 1
                                                   ? "file://%MEETING%"
                                                   : launch.meetingUrl()));
  // Read by PyTorch where a rank begins. The doctor shows what users set, and
  // its ranks compute on one thread of ours.
  if (!copies && !line.doctor)
    setenv("OMP_NUM_THREADS", "1", /*overwrite=*/0);
  // Ranks of one host inherit a secret; on several, people give each the same.
  if (launch.nodes == 1 && findSecret(processVariables()).empty())
    setenv(secretVariable, makeSecret().c_str(), /*overwrite=*/1);
  return superviseRanks(ranks);
}

/// Ends a member's process, whose `work` has its status. `work` leaves in
/// `connection` what tells the other ranks of an error.
template <typename Work>
int asMember(const CommandLine &line, const Membership &me, Work work) {
  limitThreads();
  Connection connection;
  try {
    int status = work(connection);
    if (status && me.rank == 0 && line.launch.supervisor.empty())
      printError(describeStop(status), E::Stopped);
    return status;
  } catch (...) {
    RankError error = describeCurrentError();
    if (line.launch.supervisor.empty())
      printError(error.message, error.kind, me.size > 1 ? me.rank : -1);
    else
      leaveError(line.launch.supervisor, error);
    writeLauncherErrorFile(error);
    leave(connection);
    // Gloo's threads may still be waiting for ranks that are gone.
    endProgram(1);
  }
}

int runMember(const CommandLine &line, const plan::LoadedPlan &loaded,
              const Transports &transports, const Membership &me) {
  return asMember(line, me, [&](Connection &connection) {
    Variables variables = processVariables();
    connection =
        meet(me, parseMeetingPoint(line.launch.meetingUrl(), variables),
             runKey(variables), agreementOf(loaded, line),
             commOptions(line, *loaded.plan, transports),
             std::chrono::seconds(line.launch.meetingSeconds));
    return trainRank(line, loaded, transports, connection,
                     {me.localRank, nullptr});
  });
}

void checkLaunch(const CommandLine &line, const Membership &me) {
  const LaunchOptions &launch = line.launch;
  if (!launch.supervisor.empty())
    return;
  if (launch.nodes > 1 && !launch.nproc)
    throw Error(E::FlagsDisagree,
                "--nnodes needs --nproc, the number of ranks on each host");
  if (launch.nodeRank >= launch.nodes)
    throw Error(E::FlagsDisagree,
                "--node-rank " + std::to_string(launch.nodeRank) +
                    " is not below --nnodes " + std::to_string(launch.nodes) +
                    "; hosts count from 0");
  if (launch.threads && launch.nodes > 1)
    throw Error(E::FlagsDisagree,
                "--threads keeps all ranks in one process; drop --nnodes");
  if (launch.threads && line.doctor)
    throw Error(E::FlagsDisagree,
                "--doctor looks at ranks that are processes; drop --threads");
  if (launch.nproc && me.source == "RANK")
    throw Error(E::FlagsDisagree,
                "--nproc starts ranks, but RANK says that a launcher started "
                "this one; drop --nproc, or unset RANK and WORLD_SIZE");
}

/// What a run on this device moves data by. Throws Error where a flag is for
/// another one, or this host has none for each rank.
Transports checkDevice(const CommandLine &line, plan::DeviceKind device,
                       bool threads, int localRanks) {
  Transports transports =
      resolveTransport(line.launch.transport, device, threads);
  checkFlags(device, deviceFlags(line));
  checkGpus(device, transports, localRanks);
  return transports;
}

} // namespace

int runRanks(const CommandLine &line, int argc, char **argv) {
  const LaunchOptions &launch = line.launch;
  Membership me;
  try {
    me = membershipOf(launch);
    checkLaunch(line, me);
    bool isOne = isMember(launch, me);
    int local = isOne ? 1 : std::max(launch.nproc, 1);
    int size = isOne ? me.size : local * launch.nodes;
    bool threads = size == 1 || (!isOne && launch.threads);
    if (line.checksFlags) {
      for (auto device : plan::EnumValuesDeviceKind())
        if (plan::nameOf(device) == line.device)
          checkDevice(line, device, threads, local);
      return 0;
    }
    if (line.doctor && !isOne && launch.nproc * launch.nodes > 1)
      return superviseProcesses(line, /*copies=*/false, argc, argv);
    if (line.doctor)
      return asMember(line, me, [&](Connection &) -> int {
        runDoctor(line, me);
        endPrinted(0);
      });
    plan::LoadedPlan loaded = readRunnablePlan(line.plan);
    if (!line.tune.empty()) {
      limitThreads();
      tune(*loaded.plan, line.tune);
      return 0;
    }
    Transports transports =
        checkDevice(line, loaded.plan->device, threads, local);
    checkWorldSize(*loaded.plan, size,
                   "run it with --nproc " +
                       std::to_string(plan::numRanks(*loaded.plan)));
    if (threads)
      return runThreads(line, loaded, transports, size);
    return isOne ? runMember(line, loaded, transports, me)
                 : superviseProcesses(
                       line, loaded.plan->device == plan::DeviceKind::Cpu, argc,
                       argv);
  } catch (...) {
    RankError error = describeCurrentError();
    if (!launch.supervisor.empty())
      leaveError(launch.supervisor, error);
    else
      printError(error.message, error.kind, me.size > 1 ? me.rank : -1);
    writeLauncherErrorFile(error);
    decline(line, error.message);
    return 1;
  }
}

} // namespace fsdp

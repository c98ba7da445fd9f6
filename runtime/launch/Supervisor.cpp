#include "launch/Supervisor.h"

#include "Error.h"
#include "StopSignals.h"
#include "launch/ErrorReport.h"
#include "launch/MemoryFile.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fsdp {

namespace {

using Clock = std::chrono::steady_clock;

// A failing rank closes its connections, at which the others fail by
// themselves and say so; then they are asked, then forced.
constexpr auto graceAfterFailure = std::chrono::seconds(2);
constexpr auto graceAfterTerm = std::chrono::seconds(5);
// A run that is asked to end finishes its step and writes a checkpoint. Batch
// systems give it about as long themselves.
constexpr auto graceAfterStop = std::chrono::seconds(120);

struct Child {
  MemoryFile error;
  pid_t pid = -1;
  bool running = false;
  int status = 0;
};

class Supervisor {
public:
  explicit Supervisor(const SupervisedRanks &ranks)
      : ranks(ranks), children(ranks.count) {
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    for (int s : stopSignals)
      if (!isIgnored(s))
        sigaddset(&signals, s);
    sigprocmask(SIG_BLOCK, &signals, &before);
  }
  ~Supervisor() {
    signalAll(SIGKILL);
    reap(/*block=*/true);
    sigprocmask(SIG_SETMASK, &before, nullptr);
  }

  int run();

private:
  void start(int local);
  void signalAll(int number) {
    for (Child &child : children)
      if (child.running) {
        kill(child.pid, number);
        kill(child.pid, SIGCONT); // one that is stopped hears nothing else
      }
  }
  void reap(bool block);
  int signalOfStop() const;
  void report();

  const SupervisedRanks &ranks;
  MemoryFile meeting;
  std::vector<Child> children;
  std::optional<int> firstFailed;
  sigset_t signals, before;
};

void Supervisor::start(int local) {
  std::vector<std::string> words = ranks.command;
  const std::pair<std::string, std::string> files[] = {
      {"%MEETING%", meeting.path()}, {"%ERROR%", children[local].error.path()}};
  for (std::string &word : words)
    for (const auto &[name, path] : files)
      if (size_t at = word.find(name); at != std::string::npos)
        word.replace(at, name.size(), path);
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  pid_t parent = getpid();
  pid_t pid = fork();
  if (pid < 0)
    throw Error(E::System, "cannot start rank " +
                               std::to_string(ranks.firstRank + local) + ": " +
                               std::strerror(errno));
  if (pid == 0) {
    // A supervisor that is killed takes its ranks with it.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
      _exit(1);
    sigprocmask(SIG_SETMASK, &before, nullptr);
    setenv("RANK", std::to_string(ranks.firstRank + local).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(ranks.worldSize).c_str(), 1);
    setenv("LOCAL_RANK", std::to_string(local).c_str(), 1);
    if (ranks.begin)
      ranks.begin(static_cast<int>(words.size()), argv.data());
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  children[local].pid = pid;
  children[local].running = true;
}

void Supervisor::reap(bool block) {
  for (size_t i = 0; i < children.size(); ++i) {
    Child &child = children[i];
    if (!child.running)
      continue;
    pid_t done;
    do
      done = waitpid(child.pid, &child.status, block ? 0 : WNOHANG);
    while (done < 0 && errno == EINTR);
    if (done != child.pid)
      continue;
    child.running = false;
    if (child.status != 0 && !firstFailed)
      firstFailed = static_cast<int>(i);
  }
}

/// Prints the cause: an error that is no consequence of another, else a rank
/// that was killed, else whoever failed first.
void Supervisor::report() {
  std::vector<std::optional<RankError>> errors;
  std::optional<int> cause;
  for (int i = 0; i < ranks.count; ++i) {
    errors.push_back(collectError(children[i].error.path()));
    if (!cause && errors[i] && !errors[i]->consequence)
      cause = i;
  }
  if (!cause && !errors[*firstFailed])
    cause = firstFailed;
  for (int i = 0; i < ranks.count && !cause; ++i)
    if (!errors[i] && children[i].status != 0)
      cause = i;
  int which = cause.value_or(*firstFailed);
  std::string message;
  E kind = E::ProcessEnded;
  int status = children[which].status;
  if (errors[which]) {
    message = errors[which]->message;
    kind = errors[which]->kind;
  } else if (WIFSIGNALED(status)) {
    message = std::string("was ended by signal ") +
              std::to_string(WTERMSIG(status)) + " (" +
              strsignal(WTERMSIG(status)) + ")";
  } else {
    message = "ended with status " + std::to_string(WEXITSTATUS(status));
  }
  printError(message, kind, ranks.firstRank + which);
}

int Supervisor::run() {
  for (int i = 0; i < ranks.count; ++i)
    start(i);
  auto anyRunning = [&] {
    return std::any_of(children.begin(), children.end(),
                       [](const Child &c) { return c.running; });
  };
  int stopSignal = 0;
  bool reported = false, asked = false;
  std::optional<Clock::time_point> deadline;
  while (anyRunning()) {
    timespec wait = {0, 200'000'000};
    int number = sigtimedwait(&signals, nullptr, &wait);
    if (number > 0 && number != SIGCHLD) {
      // The first time they may finish their step.
      signalAll(stopSignal ? SIGKILL : number);
      stopSignal = number;
      asked = true;
      deadline = Clock::now() + graceAfterStop;
    }
    reap(/*block=*/false);
    if (!stopSignal)
      stopSignal = signalOfStop();
    if (firstFailed && !deadline)
      deadline = Clock::now() + graceAfterFailure;
    if (deadline && Clock::now() > *deadline && anyRunning()) {
      // Those that end from now on were told to; what failed has failed.
      if (firstFailed && !reported && !stopSignal) {
        report();
        reported = true;
      }
      signalAll(asked ? SIGKILL : SIGTERM);
      asked = true;
      deadline = Clock::now() + graceAfterTerm;
    }
  }
  bool failed = std::any_of(children.begin(), children.end(), [](auto &child) {
    return collectError(child.error.path()).has_value();
  });
  if (stopSignal && !failed) {
    printError(describeStop(128 + stopSignal), E::Stopped);
    return 128 + stopSignal;
  }
  if (!firstFailed)
    return 0;
  if (!reported)
    report();
  return 1;
}

/// Where somebody asked a rank to end, and not us, the signal; else 0.
int Supervisor::signalOfStop() const {
  int status = firstFailed ? children[*firstFailed].status : 0;
  if (!WIFEXITED(status))
    return 0;
  for (int signal : stopSignals)
    if (WEXITSTATUS(status) == 128 + signal)
      return signal;
  return 0;
}

// Read by a signal handler, so it is plain memory.
char pathToRemove[4096];

void removeAndEnd(int number) {
  if (pathToRemove[0])
    unlink(pathToRemove);
  _exit(128 + number);
}

} // namespace

std::string describeStop(int status) {
  return std::string("stopped by ") + strsignal(status - 128);
}

int superviseRanks(const SupervisedRanks &ranks) {
  return Supervisor(ranks).run();
}

void removeWhenKilled(const std::string &path) {
  pathToRemove[0] = 0;
  for (int s : stopSignals)
    if (!isIgnored(s))
      std::signal(s, path.empty() ? SIG_DFL : removeAndEnd);
  if (path.size() < sizeof(pathToRemove))
    std::strcpy(pathToRemove, path.c_str());
}

} // namespace fsdp

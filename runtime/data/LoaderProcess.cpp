#include "data/LoaderProcess.h"

#include "Error.h"
#include "StopSignals.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

extern char **environ;

namespace fsdp {

// A loader that is told to end joins its workers.
static constexpr int endMilliseconds = 2000;
// That a loader has to say where it is; it asks its worker first.
static constexpr int answerMilliseconds = 1000;

static Error cannotStart(const std::string &command) {
  return Error(E::Loader, "cannot start the data command '" + command +
                              "': " + std::strerror(errno));
}

LoaderProcess::LoaderProcess(const std::string &command, const BatchRing &ring,
                             const BatchRing::Reader &reader,
                             std::chrono::milliseconds patience)
    : ring(ring), patience(patience) {
  ready = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK);
  freed = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK);
  int ends[2] = {-1, -1};
  if (ready < 0 || freed < 0 || pipe2(ends, O_CLOEXEC) != 0) {
    Error error = cannotStart(command);
    end();
    throw error;
  }
  watching = ends[0];
  alive = ends[1];
  // What a child does between fork and exec may not allocate.
  std::vector<std::string> words;
  auto isOurs = [](const char *word) {
    for (const char *name :
         {"RANK=", "WORLD_SIZE=", "LOCAL_RANK=", "FSDP_MLIR_RING="})
      if (std::strncmp(word, name, std::strlen(name)) == 0)
        return true;
    return false;
  };
  const char *local = getenv("LOCAL_RANK");
  words.push_back("RANK=" + std::to_string(reader.rank));
  words.push_back("WORLD_SIZE=" + std::to_string(reader.ranks));
  words.push_back("LOCAL_RANK=" +
                  (local ? local : std::to_string(reader.rank)));
  words.push_back("FSDP_MLIR_RING=" + std::to_string(ring.descriptor()) + "," +
                  std::to_string(ready) + "," + std::to_string(freed) + "," +
                  std::to_string(watching));
  for (char **word = environ; *word; ++word)
    if (!isOurs(*word))
      words.push_back(*word);
  std::vector<char *> environment;
  for (std::string &word : words)
    environment.push_back(word.data());
  environment.push_back(nullptr);
  pid_t parent = getpid();
  int ringFile = ring.descriptor();
  pid = fork();
  if (pid == 0)
    runChild(command.c_str(), environment.data(), parent, ringFile);
  if (pid > 0) {
    setpgid(pid, pid); // whoever of the two comes first
    handle = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  }
  if (handle < 0) {
    Error error = cannotStart(command);
    end();
    throw error;
  }
}

void LoaderProcess::runChild(const char *command, char **environment,
                             pid_t parent, int ringFile) {
  // A group of its own: workers end with it, and a terminal's interrupt
  // reaches the ranks, which finish their step.
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent)
    _exit(1);
  for (int file : {ringFile, ready, freed, watching})
    fcntl(file, F_SETFD, 0);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  std::signal(SIGXFSZ, SIG_DFL);
  for (int number : stopSignals)
    std::signal(number, SIG_DFL);
  const char *arguments[] = {"sh", "-c", command, nullptr};
  execve("/bin/sh", const_cast<char **>(arguments), environment);
  _exit(127);
}

bool LoaderProcess::takeReady() {
  eventfd_t one;
  return eventfd_read(ready, &one) == 0;
}

void LoaderProcess::awaitReady(const std::string &what) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!takeReady()) {
    auto rest = std::chrono::duration_cast<std::chrono::milliseconds>(
                    deadline - std::chrono::steady_clock::now())
                    .count();
    pollfd files[] = {{ready, POLLIN, 0}, {handle, POLLIN, 0}};
    int found =
        rest > 0
            ? poll(files, 2, static_cast<int>(std::min<int64_t>(rest, 1 << 30)))
            : 0;
    if (found < 0 && errno == EINTR)
      continue;
    if (found == 0) {
      std::string where = askWhere();
      throw Error(E::LoaderSlow, "the loader has given nothing for " +
                                     std::to_string(patience.count() / 1000) +
                                     " s, and " + what + " is due; " +
                                     (where.empty() ? "look where it waits"
                                                    : "it is at " + where) +
                                     ", or raise --data-timeout");
    }
    // What it gave before it ended counts.
    if (!(files[0].revents & POLLIN) && files[1].revents)
      throw Error(E::Loader, describeEnd(what));
  }
}

/// In the loader's words, which also tells standard error; empty: it is in no
/// state to answer.
std::string LoaderProcess::askWhere() {
  pid_t asked = static_cast<pid_t>(ring.answers());
  if (asked <= 0 || getpgid(asked) != pid || kill(asked, SIGUSR2) != 0)
    return "";
  for (int waited = 0; waited < answerMilliseconds; waited += 10) {
    if (std::string said = ring.problem(); !said.empty())
      return said;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return ring.problem();
}

std::string LoaderProcess::describeEnd(const std::string &what) {
  // Its number stays its own until end() has ended its group.
  siginfo_t ended = {};
  waitid(P_PID, static_cast<id_t>(pid), &ended, WEXITED | WNOWAIT);
  if (std::string problem = ring.problem(); !problem.empty())
    return problem;
  std::string due = ", and " + what + " is due";
  if (ended.si_code != CLD_EXITED)
    return "the loader was ended by signal " + std::to_string(ended.si_status) +
           " (" + strsignal(ended.si_status) + ")" + due;
  return "the loader ended with status " + std::to_string(ended.si_status) +
         due + "; a data command calls fsdp_mlir.feed()";
}

void LoaderProcess::free(uint64_t count) { eventfd_write(freed, count); }

void LoaderProcess::end() {
  if (alive >= 0)
    close(alive); // asks it to end
  alive = -1;
  if (pid > 0) {
    pollfd file = {handle, POLLIN, 0};
    while (handle >= 0 && poll(&file, 1, endMilliseconds) < 0 && errno == EINTR)
      ;
    kill(-pid, SIGKILL); // workers too, which may outlive it
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
      ;
    pid = -1;
  }
  for (int *file : {&handle, &ready, &freed, &watching}) {
    if (*file >= 0)
      close(*file);
    *file = -1;
  }
}

LoaderProcess::~LoaderProcess() { end(); }

} // namespace fsdp

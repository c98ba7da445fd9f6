// Starts a program once, and after that copies of it: loading PyTorch and MLIR
// takes longer than most tests' work. Preloaded into fsdp-translate and its
// like by chain.py, it waits where main() would begin, with all libraries
// loaded, and forks for each command line that it is sent. The copy calls the
// program's own main().
//
// $FORK_SERVER is the number of a socket; the program's arguments are libraries
// to load ahead. A request is one packet of words, which end with a zero: the
// folder to run in, the number of arguments, these, and the environment. It
// comes with three files: for output, for errors, and for the answer, which is
// the process's number at its start and its status, as of waitpid, at its end.

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <map>
#include <poll.h>
#include <string>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

using Main = int (*)(int, char **, char **);
using Start = int (*)(Main, int, char **, void (*)(), void (*)(), void (*)(),
                      void *);

Main programMain;

[[noreturn]] void fail(const char *what) {
  std::perror(what);
  _exit(126);
}

constexpr size_t largestRequest = 1 << 18;

struct Request {
  enum File { Output, Errors, Answer, FileCount };
  int files[FileCount];
  std::string bytes;
  std::vector<char *> words; // into bytes, with a null behind them
};

/// False at the end of requests.
bool receive(int socket, Request &request) {
  request.bytes.resize(largestRequest);
  iovec part = {request.bytes.data(), request.bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(request.files))];
  msghdr message = {};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got == 0)
    return false;
  cmsghdr *files = CMSG_FIRSTHDR(&message);
  if (got < 0 || message.msg_flags & MSG_TRUNC || !files ||
      files->cmsg_len != CMSG_LEN(sizeof(request.files)))
    fail("fork server: a request is not whole");
  std::memcpy(request.files, CMSG_DATA(files), sizeof(request.files));
  char *word = request.bytes.data(), *end = word + got;
  for (; word < end; word += std::strlen(word) + 1)
    request.words.push_back(word);
  request.words.push_back(nullptr);
  return true;
}

/// Becomes what was asked for, in a copy of this process.
[[noreturn]] void become(Request &request, const sigset_t &signals) {
  if (dup2(request.files[Request::Output], STDOUT_FILENO) < 0 ||
      dup2(request.files[Request::Errors], STDERR_FILENO) < 0)
    fail("fork server: dup2");
  for (int file : request.files)
    close(file);
  char **words = request.words.data();
  if (chdir(words[0]))
    fail(words[0]);
  sigprocmask(SIG_SETMASK, &signals, nullptr);
  int argc = std::atoi(words[1]);
  environ = words + 2 + argc;
  std::vector<char *> argv(words + 2, environ);
  argv.push_back(nullptr);
  std::exit(programMain(argc, argv.data(), environ));
}

void answer(int pipe, int32_t number) {
  // Whoever asked may have gone.
  if (write(pipe, &number, sizeof(number)) < 0)
    return;
}

void serve(int socket) {
  std::map<pid_t, int> answers;
  sigset_t child, before;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  sigprocmask(SIG_BLOCK, &child, &before);
  std::signal(SIGPIPE, SIG_IGN);
  int ended = signalfd(-1, &child, SFD_CLOEXEC);
  pollfd waiting[] = {{socket, POLLIN, 0}, {ended, POLLIN, 0}};
  while (poll(waiting, 2, -1) > 0) {
    if (waiting[1].revents) {
      signalfd_siginfo ignored;
      if (read(ended, &ignored, sizeof(ignored)) < 0)
        fail("fork server: signalfd");
      int status;
      for (pid_t pid; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
        answer(answers[pid], status);
        close(answers[pid]);
        answers.erase(pid);
      }
    }
    Request request;
    if (!waiting[0].revents)
      continue;
    if (!receive(socket, request))
      return;
    pid_t pid = fork();
    if (pid < 0)
      fail("fork server: fork");
    if (pid == 0) {
      close(socket);
      close(ended);
      for (auto [other, file] : answers)
        close(file);
      std::signal(SIGPIPE, SIG_DFL);
      become(request, before);
    }
    answers[pid] = request.files[Request::Answer];
    answer(answers[pid], pid);
    close(request.files[Request::Output]);
    close(request.files[Request::Errors]);
  }
}

int serveOrRun(int argc, char **argv, char **environment) {
  const char *socket = std::getenv("FORK_SERVER");
  if (!socket)
    return programMain(argc, argv, environment);
  int number = std::atoi(socket);
  unsetenv("FORK_SERVER");
  unsetenv("LD_PRELOAD");
  for (int i = 1; i < argc; ++i)
    if (!dlopen(argv[i], RTLD_NOW | RTLD_LOCAL))
      fail(dlerror());
  serve(number);
  _exit(0);
}

} // namespace

/// What a program's first instructions call, with its main().
extern "C" int __libc_start_main(Main main, int argc, char **argv,
                                 void (*init)(), void (*fini)(),
                                 void (*linkerFini)(), void *stack) {
  programMain = main;
  auto start = reinterpret_cast<Start>(dlsym(RTLD_NEXT, "__libc_start_main"));
  return start(serveOrRun, argc, argv, init, fini, linkerFini, stack);
}

#include "launch/MeetingStore.h"

#include "Error.h"
#include "FlagOrArgument.h"
#include "launch/LimitedCall.h"
#include "launch/ListeningSocket.h"
#include "plan/FormatText.h"

#include <filesystem>
#include <sys/resource.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <unistd.h>

namespace fs = std::filesystem;

namespace fsdp {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

std::string nameOf(const MeetingPoint &where) {
  return where.kind == MeetingPoint::Kind::File
             ? where.path
             : where.host + ":" + std::to_string(where.port);
}

bool serves(const Membership &me, const MeetingPoint &where) {
  return where.kind == MeetingPoint::Kind::Server && me.rank == 0 &&
         !where.launcherServes;
}

std::string adviceOnHost(const MeetingPoint &where) {
  const std::string &host = where.host;
  if (where.kind == MeetingPoint::Kind::File)
    return "";
  if (!isKnown(host))
    return "; this host does not know the name " + host +
           ": give a name or an address that each host reaches (--master-addr "
           "or MASTER_ADDR)";
  if (host != "localhost" && host.rfind("127.", 0) != 0 && host != "::1")
    return "";
  return "; " + host +
         " is this host itself: ranks of other hosts need an address that they "
         "reach (--master-addr or MASTER_ADDR)";
}

static Error cannotMeet(const MeetingPoint &where, const std::string &why) {
  return Error(E::MeetingFailed,
               "cannot meet in file " + where.path + ": " + why);
}

/// What is said there is far less, and waited for without end where it does
/// not fit.
static void requireRoom(const MeetingPoint &where, int ranks) {
  rlim_t needed = rlim_t(16384) * ranks;
  rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < needed)
    throw cannotMeet(where, "it takes up to " + std::to_string(needed) +
                                " bytes, and ulimit -f allows " +
                                std::to_string(limit.rlim_cur) +
                                "; allow more");
}

static StorePtr openFile(const MeetingPoint &where, int ranks) {
  requireRoom(where, ranks);
  // A c10d FileStore tries for minutes to open a file that cannot be there.
  fs::path folder = fs::absolute(where.path).parent_path();
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw cannotMeet(where, "folder " + folder.string() +
                                " is not there, or cannot be written; make it");
  try {
    return c10::make_intrusive<c10d::FileStore>(where.path, ranks);
  } catch (const std::exception &error) {
    throw cannotMeet(where, firstLine(error.what()));
  }
}

static StorePtr serve(const MeetingPoint &where,
                      c10d::TCPStoreOptions options) {
  options.isServer = true;
  // A process that meets again, or whose own process group meets there too,
  // has one server.
  options.multiTenant = true;
  // Where this cannot be, c10d listens on all addresses, or says why not.
  options.masterListenFd = listenAt(where.host, where.port);
  try {
    return c10::make_intrusive<c10d::TCPStore>(where.host, options);
  } catch (const std::exception &error) {
    std::string text = error.what();
    if (text.find("EADDRINUSE") != std::string::npos ||
        text.find("in use") != std::string::npos)
      throw Error(
          E::PortInUse,
          "port " + std::to_string(where.port) +
              " is in use on this host; choose another one (" +
              flagOrArgument("--rendezvous, --master-port", "rendezvous=") +
              " or MASTER_PORT)");
    throw Error(E::MeetingFailed, "cannot serve the rendezvous at " +
                                      nameOf(where) + ": " +
                                      firstLine(error.what()));
  }
}

StorePtr openMeetingStore(const Membership &me, const MeetingPoint &where,
                          std::chrono::seconds timeout) {
  bool isFile = where.kind == MeetingPoint::Kind::File;
  auto noAnswer = [=](const std::string &why) {
    std::string within = " within " + std::to_string(timeout.count()) + " s";
    if (isFile)
      return cannotMeet(where, "it could not be opened" + within);
    return Error(
        E::RanksMissing,
        std::string(where.launcherServes ? "the launcher's store" : "rank 0") +
            " did not answer at " + nameOf(where) + within + why +
            adviceOnHost(where));
  };
  auto open = [=]() -> StorePtr {
    if (isFile)
      return openFile(where, me.size);
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(where.port);
    options.waitWorkers = false;
    options.timeout = timeout;
    if (serves(me, where))
      return serve(where, options);
    try {
      return c10::make_intrusive<c10d::TCPStore>(where.host, options);
    } catch (const std::exception &error) {
      throw noAnswer(": " + firstLine(error.what()));
    }
  };
  // c10d applies the limit to each try, and may begin the last one just before
  // it. For a server that answers nothing it waits without end.
  return callUpTo(std::chrono::steady_clock::now() + timeout, open,
                  [&] { return noAnswer(""); });
}

} // namespace fsdp

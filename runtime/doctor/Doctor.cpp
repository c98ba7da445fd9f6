#include "doctor/Doctor.h"

#include "Error.h"
#include "comm/ClockOffsets.h"
#include "doctor/Json.h"
#include "launch/ErrorReport.h"

#include <algorithm>
#include <future>
#include <thread>

namespace fsdp::doctor {

namespace {

/// The clock of the day, which logs show.
HostClock clockOfDay() {
  HostClock clock = hostClock();
  clock.now = [] {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
  };
  return clock;
}

constexpr size_t largerThanPackets = 16 << 10;

/// What came of a transport.
struct Attempt {
  TransportFigures figures;
  ClockOffset clock;
  Connection connection;
};

class Examination {
public:
  Examination(const Membership &me, std::shared_ptr<Meeting> meeting,
              const DoctorOptions &options)
      : me(me), meeting(std::move(meeting)), options(options) {
    mine.rank = me.rank;
  }

  std::vector<RankReport> run();

private:
  /// What all ranks report so far. They are here at about the same time, but
  /// for one that waits for another in a collective.
  std::vector<RankReport> exchange(const std::string &what) {
    return reportsFrom(meeting->exchange(what, report(), 4 * options.patience));
  }
  std::string report() const {
    return nlohmann::json(mine).dump(-1, ' ', false,
                                     nlohmann::json::error_handler_t::replace);
  }
  /// Connecting has waits of its own, which nobody can end: it is left alone
  /// behind this.
  std::chrono::seconds longestAttempt() const { return 3 * options.patience; }
  std::vector<RankReport> exchangeFacts();
  static std::vector<RankReport> reportsFrom(const std::vector<std::string> &);
  /// Keeps the first connection that works.
  void tryTransport(HostTransport transport, const std::string &name,
                    bool isNeeded);
  void tryGpus(const std::string &name);

  const Membership &me;
  std::shared_ptr<Meeting> meeting;
  const DoctorOptions &options;
  RankReport mine;
  Connection connection; // that works, for the next transport
};

std::vector<RankReport>
Examination::reportsFrom(const std::vector<std::string> &texts) {
  std::vector<RankReport> reports;
  for (const std::string &text : texts)
    try {
      reports.push_back(nlohmann::json::parse(text).get<RankReport>());
    } catch (const nlohmann::json::exception &) {
      throw Error(
          E::RanksDiffer,
          "rank " + std::to_string(reports.size()) +
              " says nothing that this fsdp-run understands; run the same "
              "version everywhere");
    }
  return reports;
}

/// The first texts that do not fit into a packet, be it a jumbo frame. Nobody
/// has waited for anything before.
std::vector<RankReport> Examination::exchangeFacts() {
  std::string text = report();
  text.resize(std::max(text.size(), largerThanPackets), ' ');
  try {
    return reportsFrom(meeting->exchange("facts", text, 2 * options.patience));
  } catch (const Error &error) {
    std::string text = error.what();
    throw Error(
        E::Network,
        "the ranks have met, but what they found did not get through (" +
            text.substr(0, text.find(';')) + "); " + largePacketsAdvice);
  }
}

/// Connects and measures. What fails is part of the figures.
void carryOut(Attempt &attempt, Meeting &meeting, const CommOptions &comm,
              const Membership &me) {
  Connection &made = attempt.connection;
  try {
    made = meeting.connect(comm);
    Communicator &communicator = *made.communicator;
    std::vector<float> send(floatsToMeasure(me.size)), receive(send);
    measureCollectives(
        [&](const Transfer &transfer) {
          communicator.finish(communicator.start(transfer));
        },
        send.data(), receive.data(), me.size, attempt.figures);
    attempt.clock = clockOffsets(communicator, clockOfDay())[me.rank];
  } catch (...) {
    attempt.figures.error = describeCurrentError().message;
    if (made.communicator)
      made.communicator->leave(attempt.figures.error);
  }
}

void Examination::tryTransport(HostTransport transport, const std::string &name,
                               bool isNeeded) {
  CommOptions comm;
  comm.transport = transport;
  comm.patience = options.patience;
  auto attempt = std::make_shared<Attempt>();
  auto over = std::make_shared<std::promise<void>>();
  std::thread([attempt, over, comm, meeting = meeting, me = me] {
    carryOut(*attempt, *meeting, comm, me);
    over->set_value();
  }).detach();
  bool ended = over->get_future().wait_for(longestAttempt()) ==
               std::future_status::ready;
  TransportFigures figures;
  if (ended)
    figures = attempt->figures;
  else
    figures.error = "nothing came of it within " + inSeconds(longestAttempt());
  figures.transport = name;
  figures.isNeeded = isNeeded;
  mine.transports.push_back(figures);
  if (ended && figures.error.empty()) {
    mine.clockSeconds = attempt->clock.nanoseconds * 1e-9;
    mine.clockUncertainty = attempt->clock.uncertainty * 1e-9;
  }
  // Whoever closes a connection first would fail those who still use it.
  auto all = exchange(name);
  bool works = std::all_of(all.begin(), all.end(), [](const RankReport &rank) {
    return rank.transports.back().error.empty();
  });
  if (works && !connection.communicator)
    connection = std::move(attempt->connection);
}

void Examination::tryGpus(const std::string &name) {
  TransportFigures figures;
  figures.transport = name;
  figures.isNeeded = true;
  try {
    if (!connection.communicator)
      throw Error(E::MeetingFailed, "the hosts cannot talk to each other");
    auto between = options.connectGpus(*connection.communicator);
    size_t bytes = floatsToMeasure(me.size) * sizeof(float);
    DeviceMemory send = between->allocate(bytes),
                 receive = between->allocate(bytes);
    measureCollectives(
        [&](const Transfer &transfer) {
          between->prepare(transfer);
          between->launch(transfer, 0);
          options.gpu->drain();
        },
        reinterpret_cast<float *>(send.data()),
        reinterpret_cast<float *>(receive.data()), me.size, figures);
  } catch (...) {
    figures.error = describeCurrentError().message;
  }
  mine.transports.push_back(figures);
  exchange(name);
}

std::vector<RankReport> Examination::run() {
  mine.facts =
      findHostFacts(options.version, options.pytorch, options.rendezvousHost);
  if (options.gpu)
    mine.gpu = options.gpu->describe() + ", " +
               std::to_string(options.gpu->freeBytes() >> 20) + " MiB free";
  auto met = exchangeFacts();
  bool oneHost = byHost(met).size() == 1;
  bool haveGpus = std::all_of(met.begin(), met.end(), [](const auto &rank) {
    return !rank.gpu.empty();
  });
  mine.flops = measureCompute(); // on all ranks at once, as they train
  if (me.size > 1) {
    if (oneHost)
      tryTransport(HostTransport::SharedMemory, "shared memory", true);
    tryTransport(HostTransport::Gloo, "Gloo", !oneHost);
    if (haveGpus)
      tryGpus("NCCL");
  }
  return exchange("end");
}

} // namespace

std::vector<RankReport> examine(const Membership &me,
                                std::shared_ptr<Meeting> meeting,
                                const DoctorOptions &options) {
  return Examination(me, std::move(meeting), options).run();
}

} // namespace fsdp::doctor

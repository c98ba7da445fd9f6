#include "train/FlightRecord.h"

#include "comm/HostProcess.h"
#include "comm/RankWatch.h"
#include "plan/Files.h"
#include "trace/CommandTexts.h"

#include <cmath>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace fsdp {

namespace {

using Json = nlohmann::ordered_json;

double milliseconds(double seconds) { return std::round(1e6 * seconds) / 1e3; }

std::string timeNow() {
  std::time_t now = std::time(nullptr);
  std::tm parts;
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// By stream, the oldest first.
Json commandsOf(const plan::PlanT &plan, const Executor &executor) {
  cost::Cluster cluster = cost::presets().front(); // names need none
  std::vector<trace::CommandTexts> texts;
  for (const auto &program : plan.programs)
    texts.emplace_back(plan, *program, cluster);
  auto now = trace::Clock::now();
  Json streams = Json::object();
  for (uint32_t s = 0; s < std::size(plan::streamNames); ++s) {
    Json commands = Json::array();
    for (const auto &entry : executor.lastCommands().of(s)) {
      std::chrono::duration<double> ago = now - entry.at;
      commands.push_back({{"program", plan.programs[entry.program]->name},
                          {"step", entry.step},
                          {"command", entry.command},
                          {"name", texts[entry.program][entry.command].name},
                          {"ms_ago", milliseconds(ago.count())}});
    }
    if (!commands.empty())
      streams[plan::streamNames[s]] = commands;
  }
  return streams;
}

Json channelsOf(const RankPosition &position) {
  Json channels = Json::array();
  for (const RankPosition::Channel &c : position.channels) {
    Json json = {{"started", c.started}};
    if (c.started) {
      json["last"] = c.startedName;
      json["last_ms_ago"] = milliseconds(c.startedAgo);
    }
    if (c.awaited)
      json["awaits"] = {{"number", c.awaited},
                        {"name", c.awaitedName},
                        {"for_ms", milliseconds(c.awaitedFor)}};
    channels.push_back(json);
  }
  return channels;
}

const char *nameOf(RankState::Condition condition) {
  switch (condition) {
  case RankState::Answers:
    return "answers";
  case RankState::Silent:
    return "silent";
  case RankState::Unreachable:
    return "unreachable";
  case RankState::Near:
    return "not asked";
  case RankState::Stopped:
    return "stopped";
  case RankState::Ended:
    return "ended";
  case RankState::Left:
    return "failed";
  }
  return "?";
}

/// Without this one.
Json othersOf(int rank, const std::vector<RankState> &states) {
  Json ranks = Json::array();
  for (int r = 0; r < static_cast<int>(states.size()); ++r) {
    if (r == rank)
      continue;
    const RankState &state = states[r];
    Json json = {{"rank", r},
                 {"condition", nameOf(state.condition)},
                 {"host", state.host},
                 {"process", state.process}};
    if (!state.lastWord.empty())
      json["last_word"] = state.lastWord;
    if (state.position) {
      json["step"] = state.position->step;
      json["channels"] = channelsOf(*state.position);
    }
    ranks.push_back(json);
  }
  return ranks;
}

} // namespace

std::string flightFolder(const RunOptions &options) {
  if (!options.flightRecord.empty())
    return options.flightRecord;
  if (!options.checkpoints.folder.empty())
    return options.checkpoints.folder;
  std::error_code unknown;
  for (const std::string &file : {options.summary, options.metrics}) {
    if (file.empty())
      continue;
    auto folder = std::filesystem::absolute(file, unknown).parent_path();
    // A folder that is not there was named by mistake.
    if (std::filesystem::is_directory(folder, unknown) &&
        (std::filesystem::is_regular_file(file, unknown) ||
         !std::filesystem::exists(file, unknown)))
      return folder;
  }
  return "";
}

std::string recordFlight(const PeerFailure &failure, const std::string &folder,
                         const plan::LoadedPlan &loaded,
                         Communicator &communicator, const Executor *executor) {
  RankWatch *watch = communicator.watch();
  if (folder.empty() || !watch)
    return "";
  int rank = communicator.rank();
  RankPosition here = positionOf(watch->progress());
  RankWatch::Heard heard = watch->hear();
  Json json = {{"time", timeNow()},
               {"error", failure.what()},
               {"rank", rank},
               {"world_size", communicator.size()},
               {"host", hostName()},
               {"process", getpid()},
               {"plan", loaded.digest},
               {"step", here.step},
               {"not_arrived", heard.blamed},
               {"channels", channelsOf(here)},
               {"streams", executor ? commandsOf(*loaded.plan, *executor)
                                    : Json::object()},
               {"others", othersOf(rank, heard.states)}};
  std::string path = folder + "/flight-rank" + std::to_string(rank) + ".json";
  try {
    std::filesystem::create_directories(folder);
    writeFileAtomically(
        json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n", path);
  } catch (const std::exception &error) {
    return std::string("; how far it was could not be written: ") +
           error.what();
  }
  return "; see " + path;
}

} // namespace fsdp

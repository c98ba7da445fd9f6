#include "comm/GlooGroups.h"

#include "comm/LookingStore.h"

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/version.h>
#include <vector>

// gloo_compat/ describes what this version's header names.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "gloo_compat/ fits PyTorch 2.11; compare it with the Gloo that "
              "this PyTorch was built with");

namespace fsdp {

void GlooGroups::requireOpen() const {
  if (closed)
    throw PeerFailure("this rank has closed its connections");
}

ProcessGroup GlooGroups::find(unsigned channel,
                              const plan::RankGroup &members) {
  std::lock_guard<std::mutex> lock(mutex);
  requireOpen();
  auto &groups = channels.at(channel);
  auto found = groups.find(members);
  return found == groups.end() ? ProcessGroup() : found->second;
}

// Without the lock: to close must not wait for ranks that do not come.
ProcessGroup GlooGroups::make(unsigned channel, const plan::RankGroup &members,
                              int rank, const Options &options,
                              const std::function<void()> &look) {
  std::string keys = "channel" + std::to_string(channel);
  for (uint32_t part : {members.first, members.stride, members.size})
    keys += "/" + std::to_string(part);
  auto waiting = c10::make_intrusive<LookingStore>(store, [&] {
    requireOpen();
    look();
  });
  auto group = c10::make_intrusive<c10d::ProcessGroupGloo>(
      c10::make_intrusive<c10d::PrefixStore>(keys, waiting),
      members.indexOf(rank), members.size, options);
  waiting->stopLooking(); // the group keeps it
  std::lock_guard<std::mutex> lock(mutex);
  requireOpen();
  channels.at(channel).emplace(members, group);
  return group;
}

void GlooGroups::close() {
  auto groups = std::make_shared<std::vector<ProcessGroup>>();
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (closed.exchange(true))
      return;
    for (auto &channel : channels) {
      for (auto &[members, group] : channel)
        groups->push_back(std::move(group));
      channel.clear();
    }
  }
  auto done = std::make_shared<std::promise<void>>();
  std::thread([groups, done] {
    groups->clear();
    done->set_value();
  }).detach();
  done->get_future().wait_for(std::chrono::seconds(1));
}

} // namespace fsdp

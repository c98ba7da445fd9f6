#include "Cliques.h"

#include <algorithm>

namespace fsdp::imitation {

std::shared_ptr<Clique::Seat> Clique::seat(int rank) {
  auto seat = std::make_shared<Seat>();
  seat->clique = shared_from_this();
  seat->rank = rank;
  return seat;
}

bool Clique::take(int rank) {
  Lock lock(mutex);
  if (!taken.emplace(rank, true).second)
    return false;
  changed.notify_all();
  changed.wait(lock, [&] { return int(taken.size()) == size; });
  return true;
}

size_t Clique::enter(Turns &turns) {
  Lock lock(mutex);
  return turns.total++;
}

void Clique::meet(Seat &seat, Turns &turns, size_t turn, const Call &call) {
  Lock lock(mutex);
  changed.wait(
      lock, [&] { return seat.aborted || turns.over % turns.total == turn; });
  if (!seat.aborted) {
    size_t number = seat.transfers++;
    Meeting &meeting = meetings[number];
    meeting.calls[seat.rank] = call;
    if (int(meeting.calls.size()) == size && !meeting.deserted) {
      std::vector<Call> calls;
      for (auto &[rank, each] : meeting.calls)
        calls.push_back(each);
      meeting.error = perform(calls);
      meeting.over = true;
      changed.notify_all();
    }
    changed.wait(lock, [&] { return seat.aborted || meeting.over; });
    if (!meeting.over)
      meeting.deserted = true;
    if (!meeting.error.empty()) {
      seat.state = ncclInvalidUsage;
      seat.message = meeting.error;
    }
    // The last to leave.
    if (meeting.over && meeting.calls.erase(seat.rank) && meeting.calls.empty())
      meetings.erase(number);
  }
  ++turns.over;
  changed.notify_all();
}

std::shared_ptr<Clique::Seat> Clique::split(Seat &seat, int color, int key) {
  Lock lock(mutex);
  Division &division = divisions[seat.splits++];
  division.wishes[seat.rank] = {color, key};
  changed.notify_all();
  changed.wait(lock, [&] {
    return seat.aborted || int(division.wishes.size()) == size;
  });
  if (seat.aborted)
    return nullptr;
  std::vector<std::pair<int, int>> members; // key and rank
  for (auto [rank, wish] : division.wishes)
    if (wish.first == color)
      members.push_back({wish.second, rank});
  std::sort(members.begin(), members.end());
  std::shared_ptr<Clique> &made = division.made[color];
  if (!made)
    made = std::make_shared<Clique>(members.size());
  auto mine =
      std::find(members.begin(), members.end(), std::make_pair(key, seat.rank));
  return made->seat(mine - members.begin());
}

void Clique::abort(Seat &seat) {
  Lock lock(mutex);
  seat.aborted = true;
  changed.notify_all();
}

void Clique::fail(Seat &seat, ncclResult_t state, const std::string &message) {
  Lock lock(mutex);
  seat.state = state;
  seat.message = message;
}

ncclResult_t Clique::stateOf(const Seat &seat, std::string &message) {
  Lock lock(mutex);
  message = seat.message;
  return seat.state;
}

} // namespace fsdp::imitation

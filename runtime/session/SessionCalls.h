// For the files that define Session.
#ifndef FSDP_RUNTIME_SESSION_SESSIONCALLS_H
#define FSDP_RUNTIME_SESSION_SESSIONCALLS_H

#include "launch/ErrorReport.h"
#include "session/Session.h"
#include "train/FlightRecord.h"

namespace fsdp {

/// A stream of random numbers from the first step on is in no checkpoint.
void requireNoStream(const RunOptions &run, const std::string &what);

/// Runs a call of the caller's, of which only one is under way.
template <typename Call> decltype(auto) Session::guarded(Call &&call) {
  std::unique_lock<std::mutex> only(calling, std::try_to_lock);
  if (!only)
    throw Error(E::RunOver,
                "another thread is in a call of this session; wait for it");
  {
    std::lock_guard<std::mutex> lock(ending);
    if (!ended.empty())
      throw Error(E::RunOver,
                  "the session is over: " + ended + "; load the plan again");
  }
  try {
    auto entered = opened.backend->enter();
    return call();
  } catch (const Refusal &) {
    throw;
  } catch (const Disagreement &) {
    throw;
  } catch (const BatchError &error) {
    if (size() > 1)
      fail(error.what());
    throw;
  } catch (const NonFiniteLoss &) {
    throw;
  } catch (PeerFailure &failure) {
    // Where a loop writes anything, it writes checkpoints.
    std::string folder = checkpoints.empty() ? "" : checkpoints.begin()->first;
    failure.addition = recordFlight(failure, folder, loaded, ranks(),
                                    state ? &state->executor : nullptr);
    fail(failure.what() + failure.addition, /*isOthers=*/true);
    throw;
  } catch (...) {
    fail(describeCurrentError().message);
    throw;
  }
}

} // namespace fsdp

#endif // FSDP_RUNTIME_SESSION_SESSIONCALLS_H

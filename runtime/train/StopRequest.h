#ifndef FSDP_RUNTIME_TRAIN_STOPREQUEST_H
#define FSDP_RUNTIME_TRAIN_STOPREQUEST_H

namespace fsdp {

/// While one lives, the first signal that asks this process to end is only
/// remembered, so that the step can be finished; a second one, some time
/// later, ends the process at once. SIGHUP stays ignored where it was, as under
/// nohup.
class StopRequest {
public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest &) = delete;
  StopRequest &operator=(const StopRequest &) = delete;

  /// Of the first one; 0: none came.
  static int received();
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STOPREQUEST_H

#ifndef FSDP_RUNTIME_TRAIN_STOPREQUEST_H
#define FSDP_RUNTIME_TRAIN_STOPREQUEST_H

namespace fsdp {

/// While one lives, the first signal that asks this process to end is only
/// remembered, so that the step can be finished; a second one, some time
/// later, ends the process at once. SIGHUP stays ignored where it was, as under
/// nohup. Where it dies by an exception this goes on: the process is about to
/// say why it fails, and a launcher that has seen another rank die would end it
/// before.
class StopRequest {
public:
  StopRequest();
  ~StopRequest();
  StopRequest(const StopRequest &) = delete;
  StopRequest &operator=(const StopRequest &) = delete;

  /// Of the first one; 0: none came.
  static int received();

private:
  const int exceptions;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_TRAIN_STOPREQUEST_H

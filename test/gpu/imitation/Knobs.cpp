#include "Knobs.h"

#include "Streams.h"

#include <atomic>
#include <string>

namespace fsdp::imitation {

namespace {

struct Injection {
  std::string function;
  unsigned nth;
  cudaError_t error;
};

struct Knobs {
  std::mutex mutex;
  Host host;
  std::vector<Injection> injections;
  std::atomic<unsigned> graphLaunches{0};
  std::atomic<void (*)(cudaStream_t)> observer{nullptr};
};

Knobs &knobs() {
  static auto *instance = new Knobs(); // memory may be freed after main
  return *instance;
}

void begin(const Host &host) {
  std::lock_guard<std::mutex> lock(knobs().mutex);
  knobs().host = host;
  knobs().injections.clear();
  knobs().graphLaunches = 0;
  forgetFailure();
}

} // namespace

UseHost::UseHost(const Host &host) { begin(host); }

UseHost::~UseHost() {
  begin(Host());
  cudaGetLastError();
}

Host host() {
  std::lock_guard<std::mutex> lock(knobs().mutex);
  return knobs().host;
}

void failCall(const char *function, unsigned nth, cudaError_t error) {
  std::lock_guard<std::mutex> lock(knobs().mutex);
  knobs().injections.push_back({function, nth, error});
}

cudaError_t injected(const char *function) {
  std::lock_guard<std::mutex> lock(knobs().mutex);
  auto &injections = knobs().injections;
  for (auto i = injections.begin(); i != injections.end(); ++i)
    if (i->function == function && --i->nth == 0) {
      cudaError_t error = i->error;
      injections.erase(i);
      return error;
    }
  return cudaSuccess;
}

void observeCaptures(void (*observer)(cudaStream_t)) {
  knobs().observer = observer;
}

void tellObserver(cudaStream_t stream) {
  if (auto observer = knobs().observer.load())
    observer(stream);
}

unsigned graphLaunches() { return knobs().graphLaunches; }
void countGraphLaunch() { ++knobs().graphLaunches; }

} // namespace fsdp::imitation

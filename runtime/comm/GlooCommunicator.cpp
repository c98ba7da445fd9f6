#include "comm/GlooCommunicator.h"

#include "comm/Reduce.h"

#include <ATen/ATen.h>
#include <csignal>
#include <cstring>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/version.h>

// gloo_compat/ describes what this version's header names.
static_assert(TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR == 11,
              "gloo_compat/ fits PyTorch 2.11; compare it with the Gloo that "
              "this PyTorch was built with");

namespace fsdp {

namespace {

at::Tensor bytesAt(const void *data, int64_t bytes) {
  return at::from_blob(const_cast<void *>(data), {bytes},
                       at::TensorOptions().dtype(at::kByte));
}

class GlooCommunicator : public Communicator {
public:
  GlooCommunicator(c10d::Store &store, int rank, int size,
                   const GlooAddress &address,
                   std::chrono::milliseconds timeout)
      : myRank(rank), ranks(size) {
    auto options = c10d::ProcessGroupGloo::Options::create(timeout);
    // Calls wait for each other, so one thread does.
    options->threads = 1;
    guarded([&] {
      using Group = c10d::ProcessGroupGloo;
      options->devices.push_back(
          !address.interface.empty()
              ? Group::createDeviceForInterface(address.interface)
          : address.loopback ? Group::createDeviceForHostname("127.0.0.1")
                             : Group::createDefaultDevice());
      group = c10::make_intrusive<Group>(
          c10::intrusive_ptr<c10d::Store>::reclaim_copy(&store), rank, size,
          options);
    });
  }

  int rank() const override { return myRank; }
  int size() const override { return ranks; }

  void allGather(const void *send, void *receive, size_t count,
                 plan::DType dtype) override {
    gatherBytes(send, receive, count * plan::dtypeBytes(dtype));
  }

  void reduceScatter(const void *send, void *receive, size_t count,
                     plan::DType dtype) override {
    size_t bytes = count * plan::dtypeBytes(dtype);
    if (bytes == 0)
      return;
    scratch.resize(bytes * ranks);
    at::Tensor from = bytesAt(send, bytes * ranks);
    at::Tensor to = bytesAt(scratch.data(), bytes * ranks);
    std::vector<int64_t> parts;
    guarded([&] { group->alltoall_base(to, from, parts, parts)->wait(); });
    std::vector<const void *> sources;
    for (int r = 0; r < ranks; ++r)
      sources.push_back(scratch.data() + r * bytes);
    sumInOrder(receive, sources, count, dtype);
  }

  void allReduce(const void *send, void *receive, size_t count,
                 plan::DType dtype) override {
    size_t bytes = plan::dtypeBytes(dtype);
    size_t part = (count + ranks - 1) / ranks;
    std::vector<char> padded(part * ranks * bytes), mine(part * bytes);
    std::memcpy(padded.data(), send, count * bytes);
    reduceScatter(padded.data(), mine.data(), part, dtype);
    gatherBytes(mine.data(), padded.data(), part * bytes);
    std::memcpy(receive, padded.data(), count * bytes);
  }

  void broadcast(void *buffer, size_t count, plan::DType dtype,
                 int root) override {
    if (count == 0)
      return;
    std::vector<at::Tensor> tensors = {
        bytesAt(buffer, count * plan::dtypeBytes(dtype))};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    guarded([&] { group->broadcast(tensors, options)->wait(); });
  }

  void barrier() override {
    guarded([&] { group->barrier()->wait(); });
  }

  // Closing the connections fails the others' calls at once.
  void abort(const std::string &) override { group.reset(); }

private:
  void gatherBytes(const void *send, void *receive, size_t bytes) {
    if (bytes == 0)
      return;
    at::Tensor from = bytesAt(send, bytes);
    at::Tensor to = bytesAt(receive, bytes * ranks);
    guarded([&] { group->_allgather_base(to, from)->wait(); });
  }

  template <typename Call> void guarded(Call call) {
    try {
      if (!group && ranks != 0 && connected)
        throw std::runtime_error("this rank has closed its connections");
      call();
      connected = true;
    } catch (const std::exception &error) {
      std::string text = error.what();
      throw PeerFailure("lost the connection to another rank: " +
                        text.substr(0, text.find('\n')));
    }
  }

  int myRank, ranks;
  bool connected = false;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  std::vector<char> scratch;
};

} // namespace

std::unique_ptr<Communicator>
createGlooCommunicator(c10d::Store &store, int rank, int size,
                       const GlooAddress &address,
                       std::chrono::milliseconds timeout) {
  // Gloo writes to sockets whose other end may have failed: that is an error
  // to report, not a signal to die of. Python, its usual host, ignores it too.
  std::signal(SIGPIPE, SIG_IGN);
  return std::make_unique<GlooCommunicator>(store, rank, size, address,
                                            timeout);
}

} // namespace fsdp

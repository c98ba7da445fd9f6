// NCCL's functions, those that this project calls.
#include "ImitatedNccl.h"

#include "Cliques.h"
#include "ImitatedCuda.h"
#include "Memory.h"
#include "Streams.h"
#include "drivers/cuda/NcclLibrary.h"

#include <atomic>
#include <cstring>
#include <utility>

using namespace fsdp::imitation;

struct ncclComm {
  std::shared_ptr<Clique::Seat> seat;
  std::vector<std::string> factors; // of what is made of ncclSum
  int registrations = 0;
};

namespace fsdp::imitation {

namespace {

thread_local int version = NCCL_VERSION_CODE;
thread_local ncclResult_t nextCall = ncclSuccess, nextTransfer = ncclSuccess;
thread_local std::string lastNcclError;

std::atomic<int> communicators{0}, registrations{0};

/// What every function does before its own.
template <typename Body> ncclResult_t call(Body body) {
  if (ncclResult_t result = std::exchange(nextCall, ncclSuccess)) {
    lastNcclError = "it was told\nto fail";
    return result;
  }
  lastNcclError.clear();
  return body();
}

ncclResult_t fail(ncclResult_t result, const char *message) {
  lastNcclError = message;
  return result;
}

/// Cliques that ranks are entering, by the number in their id.
struct Entrance {
  std::mutex mutex;
  uint64_t ids = 0;
  std::map<uint64_t, std::shared_ptr<Clique>> cliques;
};
Entrance &entrance() {
  static auto *instance = new Entrance();
  return *instance;
}

ncclResult_t getVersion(int *result) {
  *result = version;
  return ncclSuccess;
}

const char *getErrorString(ncclResult_t result) {
  switch (result) {
  case ncclSuccess:
    return "no error";
  case ncclUnhandledCudaError:
    return "unhandled cuda error";
  case ncclSystemError:
    return "unhandled system error";
  case ncclInvalidUsage:
    return "invalid usage";
  case ncclRemoteError:
    return "remote process exited or there was a network error";
  default:
    return "another error";
  }
}

const char *getLastError(ncclComm_t) { return lastNcclError.c_str(); }

ncclResult_t getUniqueId(ncclUniqueId *id) {
  return call([&] {
    std::lock_guard<std::mutex> lock(entrance().mutex);
    uint64_t number = ++entrance().ids;
    std::memset(id, 0, sizeof(*id));
    std::memcpy(id, &number, sizeof(number));
    return ncclSuccess;
  });
}

ncclComm_t newCommunicator(std::shared_ptr<Clique::Seat> seat) {
  ++communicators;
  return new ncclComm{std::move(seat), {}, 0};
}

ncclResult_t commInitRank(ncclComm_t *comm, int size, ncclUniqueId id,
                          int rank) {
  return call([&] {
    uint64_t number;
    std::memcpy(&number, &id, sizeof(number));
    std::shared_ptr<Clique> clique;
    {
      std::lock_guard<std::mutex> lock(entrance().mutex);
      if (number == 0 || number > entrance().ids)
        return fail(ncclInvalidArgument, "an id that nobody made");
      auto &entered = entrance().cliques[number];
      if (!entered)
        entered = std::make_shared<Clique>(size);
      clique = entered;
    }
    if (clique->size != size || !clique->take(rank))
      return fail(ncclInvalidArgument, "a rank that is taken");
    *comm = newCommunicator(clique->seat(rank));
    return ncclSuccess;
  });
}

ncclResult_t commSplit(ncclComm_t comm, int color, int key, ncclComm_t *made,
                       ncclConfig_t *) {
  return call([&] {
    auto seat = comm->seat->clique->split(*comm->seat, color, key);
    if (!seat)
      return fail(ncclInternalError, "aborted");
    *made = newCommunicator(seat);
    return ncclSuccess;
  });
}

ncclResult_t commAbort(ncclComm_t comm) {
  // The streams may still have some of its transfers.
  comm->seat->clique->abort(*comm->seat);
  registrations -= comm->registrations;
  --communicators;
  delete comm;
  return ncclSuccess;
}

ncclResult_t commDestroy(ncclComm_t comm) {
  --communicators;
  delete comm;
  return ncclSuccess;
}

ncclResult_t commGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  return call([&] {
    *state = comm->seat->clique->stateOf(*comm->seat, lastNcclError);
    return ncclSuccess;
  });
}

size_t bytesOf(ncclDataType_t type) {
  constexpr size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return bytes[type];
}

ncclResult_t redOpCreatePreMulSum(ncclRedOp_t *op, void *scalar,
                                  ncclDataType_t type, ncclScalarResidence_t,
                                  ncclComm_t comm) {
  return call([&] {
    *op = ncclRedOp_t(ncclNumOps + comm->factors.size());
    comm->factors.emplace_back(static_cast<char *>(scalar), bytesOf(type));
    return ncclSuccess;
  });
}

/// Null: it is not captured.
std::shared_ptr<Capture> captureOf(cudaStream_t stream) {
  std::lock_guard<std::mutex> lock(state().mutex);
  return stream->capture;
}

ncclResult_t launch(const Call &call, ncclComm_t comm, cudaStream_t stream) {
  auto seat = comm->seat;
  if (ncclResult_t result = std::exchange(nextTransfer, ncclSuccess)) {
    seat->clique->fail(*seat, result, "it was told to fail");
    return ncclSuccess;
  }
  auto &turns = seat->turns[captureOf(stream)];
  if (!turns)
    turns = std::make_shared<Clique::Turns>();
  size_t turn = seat->clique->enter(*turns);
  enqueue(stream, [=, turns = turns] {
    seat->clique->meet(*seat, *turns, turn, call);
  });
  return ncclSuccess;
}

ncclResult_t launch(CallKind kind, const void *from, void *to, size_t count,
                    ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                    cudaStream_t stream) {
  return call([&] {
    if (count == 0)
      return ncclSuccess;
    Call call{kind, from, to, count, type, op, "", {}};
    if (op >= ncclNumOps) {
      call.op = ncclSum;
      call.factor = comm->factors.at(op - ncclNumOps);
    }
    return launch(call, comm, stream);
  });
}

/// The group that a thread has begun: of one communicator, on one stream.
struct Group {
  bool begun = false;
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Message> messages;
};
thread_local Group group;

ncclResult_t add(const Message &message, ncclComm_t comm, cudaStream_t stream) {
  return call([&] {
    if (!group.begun || (group.comm && group.comm != comm) ||
        (group.stream && group.stream != stream))
      return fail(ncclInvalidUsage, "outside of a group of its own");
    group.comm = comm;
    group.stream = stream;
    group.messages.push_back(message);
    return ncclSuccess;
  });
}

ncclResult_t send(const void *from, size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
  return add({peer, from, nullptr, count * bytesOf(type)}, comm, stream);
}

ncclResult_t recv(void *to, size_t count, ncclDataType_t type, int peer,
                  ncclComm_t comm, cudaStream_t stream) {
  return add({peer, nullptr, to, count * bytesOf(type)}, comm, stream);
}

ncclResult_t groupStart() {
  return call([&] {
    group = {};
    group.begun = true;
    return ncclSuccess;
  });
}

ncclResult_t groupEnd() {
  return call([&] {
    Group whole = std::exchange(group, {});
    if (!whole.begun)
      return fail(ncclInvalidUsage, "no group was begun");
    if (whole.messages.empty() || !whole.messages.front().bytes)
      return ncclSuccess;
    return launch(Call{CallKind::Group, nullptr, nullptr, 0, ncclUint8, ncclSum,
                       "", std::move(whole.messages)},
                  whole.comm, whole.stream);
  });
}

ncclResult_t allGather(const void *from, void *to, size_t count,
                       ncclDataType_t type, ncclComm_t comm,
                       cudaStream_t stream) {
  return launch(CallKind::AllGather, from, to, count, type, ncclSum, comm,
                stream);
}

ncclResult_t reduceScatter(const void *from, void *to, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return launch(CallKind::ReduceScatter, from, to, count, type, op, comm,
                stream);
}

ncclResult_t allReduce(const void *from, void *to, size_t count,
                       ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                       cudaStream_t stream) {
  return launch(CallKind::AllReduce, from, to, count, type, op, comm, stream);
}

ncclResult_t memAlloc(void **block, size_t bytes) {
  return call([&] {
    return cudaMalloc(block, bytes) == cudaSuccess ? ncclSuccess
                                                   : ncclUnhandledCudaError;
  });
}

ncclResult_t memFree(void *block) {
  return call([&] {
    return cudaFree(block) == cudaSuccess ? ncclSuccess
                                          : ncclUnhandledCudaError;
  });
}

ncclResult_t commRegister(const ncclComm_t comm, void *block, size_t bytes,
                          void **handle) {
  return call([&] {
    if (memory().kindOf(block, bytes) != Kind::Device)
      return fail(ncclInvalidArgument, "not device memory");
    ++registrations;
    ++comm->registrations;
    *handle = block;
    return ncclSuccess;
  });
}

ncclResult_t commDeregister(const ncclComm_t comm, void *) {
  return call([&] {
    --registrations;
    --comm->registrations;
    return ncclSuccess;
  });
}

} // namespace

UseNccl::UseNccl(int now) : before(std::exchange(version, now)) {}
UseNccl::~UseNccl() { version = before; }

void failNccl(ncclResult_t result) { nextCall = result; }
void failTransfer(ncclResult_t result) { nextTransfer = result; }

NcclCounts ncclInUse() { return {communicators, registrations}; }

} // namespace fsdp::imitation

namespace fsdp {

const NcclFunctions &ncclFunctions() {
  static const NcclFunctions before = {
      getVersion,
      getErrorString,
      getLastError,
      getUniqueId,
      commInitRank,
      commSplit,
      commDestroy,
      commAbort,
      commGetAsyncError,
      redOpCreatePreMulSum,
      allGather,
      reduceScatter,
      allReduce,
      send,
      recv,
      groupStart,
      groupEnd,
      /*memAlloc=*/nullptr,
      /*memFree=*/nullptr,
      /*commRegister=*/nullptr,
      /*commDeregister=*/nullptr,
  };
  static const NcclFunctions since219 = [] {
    NcclFunctions functions = before;
    functions.memAlloc = memAlloc;
    functions.memFree = memFree;
    functions.commRegister = commRegister;
    functions.commDeregister = commDeregister;
    return functions;
  }();
  return version < NCCL_VERSION(2, 19, 0) ? before : since219;
}

} // namespace fsdp

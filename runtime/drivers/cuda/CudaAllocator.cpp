#include "drivers/cuda/CudaAllocator.h"

#include <utility>

namespace fsdp {

using namespace c10::cuda::CUDACachingAllocator;
using c10::DeviceIndex;
using c10::MempoolId_t;

c10::DataPtr CudaAllocator::allocate(size_t bytes) {
  if (bytes > 0)
    if (c10::DataPtr lent = hooks.allocate(bytes))
      return lent;
  return own.allocate(bytes);
}

void *CudaAllocator::raw_alloc(size_t bytes) {
  if (bytes > 0)
    if (c10::DataPtr lent = hooks.allocate(bytes))
      return lent.release_context();
  return own.raw_alloc(bytes);
}

void CudaAllocator::raw_delete(void *pointer) {
  if (pointer && !hooks.release(pointer))
    own.raw_delete(pointer);
}

c10::DeleterFnPtr CudaAllocator::raw_deleter() const {
  return &c10::cuda::CUDACachingAllocator::raw_delete;
}

void CudaAllocator::recordStream(const c10::DataPtr &pointer,
                                 c10::cuda::CUDAStream stream) {
  if (pointer.get_deleter() == own.raw_deleter())
    own.recordStream(pointer, stream);
}

void *CudaAllocator::raw_alloc_with_stream(size_t bytes, cudaStream_t stream) {
  return own.raw_alloc_with_stream(bytes, stream);
}

void CudaAllocator::copy_data(void *to, const void *from, size_t bytes) const {
  own.copy_data(to, from, bytes);
}

void CudaAllocator::init(int devices) { own.init(devices); }

bool CudaAllocator::initialized() { return own.initialized(); }

std::string CudaAllocator::name() { return own.name(); }

double CudaAllocator::getMemoryFraction(DeviceIndex device) {
  return own.getMemoryFraction(device);
}

void CudaAllocator::setMemoryFraction(double fraction, DeviceIndex device) {
  own.setMemoryFraction(fraction, device);
}

std::vector<StreamSegmentSize>
CudaAllocator::getExpandableSegmentSizes(DeviceIndex device) {
  return own.getExpandableSegmentSizes(device);
}

void CudaAllocator::enable(bool value) { own.enable(value); }

bool CudaAllocator::isEnabled() const { return own.isEnabled(); }

void CudaAllocator::emptyCache(MempoolId_t pool) { own.emptyCache(pool); }

void CudaAllocator::cacheInfo(DeviceIndex device, size_t *largestBlock) {
  own.cacheInfo(device, largestBlock);
}

void *CudaAllocator::getBaseAllocation(void *pointer, size_t *size) {
  return own.getBaseAllocation(pointer, size);
}

c10::CachingDeviceAllocator::DeviceStats
CudaAllocator::getDeviceStats(DeviceIndex device) {
  return own.getDeviceStats(device);
}

void CudaAllocator::resetAccumulatedStats(DeviceIndex device) {
  own.resetAccumulatedStats(device);
}

void CudaAllocator::resetPeakStats(DeviceIndex device) {
  own.resetPeakStats(device);
}

std::pair<size_t, size_t> CudaAllocator::getMemoryInfo(DeviceIndex device) {
  return own.getMemoryInfo(device);
}

SnapshotInfo CudaAllocator::snapshot(MempoolId_t pool, bool traces) {
  return own.snapshot(pool, traces);
}

void CudaAllocator::beginAllocateToPool(
    DeviceIndex device, MempoolId_t pool,
    std::function<bool(cudaStream_t)> filter) {
  own.beginAllocateToPool(device, pool, std::move(filter));
}

void CudaAllocator::endAllocateToPool(DeviceIndex device, MempoolId_t pool) {
  own.endAllocateToPool(device, pool);
}

void CudaAllocator::releasePool(DeviceIndex device, MempoolId_t pool) {
  own.releasePool(device, pool);
}

int CudaAllocator::getPoolUseCount(DeviceIndex device, MempoolId_t pool) {
  return own.getPoolUseCount(device, pool);
}

void CudaAllocator::createOrIncrefPool(
    DeviceIndex device, MempoolId_t pool,
    std::shared_ptr<CUDAAllocator> allocator) {
  own.createOrIncrefPool(device, pool, std::move(allocator));
}

void CudaAllocator::setUseOnOOM(DeviceIndex device, MempoolId_t pool,
                                bool use) {
  own.setUseOnOOM(device, pool, use);
}

void CudaAllocator::setNoSplit(DeviceIndex device, MempoolId_t pool) {
  own.setNoSplit(device, pool);
}

bool CudaAllocator::checkPoolLiveAllocations(
    DeviceIndex device, MempoolId_t pool,
    const std::unordered_set<void *> &expected) {
  return own.checkPoolLiveAllocations(device, pool, expected);
}

ShareableHandle CudaAllocator::shareIpcHandle(void *pointer) {
  return own.shareIpcHandle(pointer);
}

std::shared_ptr<void> CudaAllocator::getIpcDevPtr(std::string handle) {
  return own.getIpcDevPtr(std::move(handle));
}

bool CudaAllocator::isHistoryEnabled() { return own.isHistoryEnabled(); }

void CudaAllocator::recordHistory(bool enabled, CreateContextFn recorder,
                                  size_t maxEntries, RecordContext when,
                                  bool clear,
                                  const std::vector<std::string> &skipped) {
  own.recordHistory(enabled, recorder, maxEntries, when, clear, skipped);
}

void CudaAllocator::recordAnnotation(
    const std::vector<std::pair<std::string, std::string>> &data) {
  own.recordAnnotation(data);
}

void CudaAllocator::pushCompileContext(std::string &context) {
  own.pushCompileContext(context);
}

void CudaAllocator::popCompileContext() { own.popCompileContext(); }

void CudaAllocator::setUserMetadata(const std::string &data) {
  own.setUserMetadata(data);
}

std::string CudaAllocator::getUserMetadata() { return own.getUserMetadata(); }

void CudaAllocator::attachOutOfMemoryObserver(OutOfMemoryObserver observer) {
  own.attachOutOfMemoryObserver(std::move(observer));
}

void CudaAllocator::attachAllocatorTraceTracker(AllocatorTraceTracker tracker) {
  own.attachAllocatorTraceTracker(std::move(tracker));
}

void CudaAllocator::enablePeerAccess(DeviceIndex device, DeviceIndex peer) {
  own.enablePeerAccess(device, peer);
}

cudaError_t CudaAllocator::memcpyAsync(void *to, int toDevice, const void *from,
                                       int fromDevice, size_t bytes,
                                       cudaStream_t stream, bool peers) {
  return own.memcpyAsync(to, toDevice, from, fromDevice, bytes, stream, peers);
}

std::shared_ptr<AllocatorState>
CudaAllocator::getCheckpointState(DeviceIndex device, MempoolId_t pool) {
  return own.getCheckpointState(device, pool);
}

CheckpointDelta
CudaAllocator::setCheckpointPoolState(DeviceIndex device,
                                      std::shared_ptr<AllocatorState> state) {
  return own.setCheckpointPoolState(device, std::move(state));
}

} // namespace fsdp

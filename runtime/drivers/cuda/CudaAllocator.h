#ifndef FSDP_RUNTIME_DRIVERS_CUDA_CUDAALLOCATOR_H
#define FSDP_RUNTIME_DRIVERS_CUDA_CUDAALLOCATOR_H

#include "device/Kernels.h"

#include <c10/cuda/CUDACachingAllocator.h>

namespace fsdp {

/// The allocator of PyTorch's CUDA kernels: what the hooks do not give, `own`
/// does, which is PyTorch's. In force once it is stored in
/// c10::cuda::CUDACachingAllocator::allocator, before or after `own` is
/// initialised. Any thread may use it.
class CudaAllocator : public c10::cuda::CUDACachingAllocator::CUDAAllocator {
public:
  CudaAllocator(CUDAAllocator &own, const MemoryHooks &hooks)
      : own(own), hooks(hooks) {}

  // Where the hooks come first.
  c10::DataPtr allocate(size_t bytes) override;
  void *raw_alloc(size_t bytes) override;
  void raw_delete(void *pointer) override;
  c10::DeleterFnPtr raw_deleter() const override;
  /// What the hooks gave is reused in the order of the plan, and no stream
  /// needs to be remembered.
  void recordStream(const c10::DataPtr &pointer,
                    c10::cuda::CUDAStream stream) override;

  // All that follows is PyTorch's.
  void *raw_alloc_with_stream(size_t bytes, cudaStream_t stream) override;
  void copy_data(void *to, const void *from, size_t bytes) const override;
  void init(int devices) override;
  bool initialized() override;
  std::string name() override;
  double getMemoryFraction(c10::DeviceIndex device) override;
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override;
  std::vector<c10::cuda::CUDACachingAllocator::StreamSegmentSize>
  getExpandableSegmentSizes(c10::DeviceIndex device) override;
  void enable(bool value) override;
  bool isEnabled() const override;
  void emptyCache(c10::MempoolId_t pool) override;
  void cacheInfo(c10::DeviceIndex device, size_t *largestBlock) override;
  void *getBaseAllocation(void *pointer, size_t *size) override;
  c10::CachingDeviceAllocator::DeviceStats
  getDeviceStats(c10::DeviceIndex device) override;
  void resetAccumulatedStats(c10::DeviceIndex device) override;
  void resetPeakStats(c10::DeviceIndex device) override;
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override;
  c10::cuda::CUDACachingAllocator::SnapshotInfo snapshot(c10::MempoolId_t pool,
                                                         bool traces) override;
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override;
  void endAllocateToPool(c10::DeviceIndex device,
                         c10::MempoolId_t pool) override;
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override;
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool,
                   bool use) override;
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  bool
  checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                           const std::unordered_set<void *> &expected) override;
  c10::cuda::CUDACachingAllocator::ShareableHandle
  shareIpcHandle(void *pointer) override;
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override;
  bool isHistoryEnabled() override;
  void recordHistory(bool enabled,
                     c10::cuda::CUDACachingAllocator::CreateContextFn recorder,
                     size_t maxEntries,
                     c10::cuda::CUDACachingAllocator::RecordContext when,
                     bool clear,
                     const std::vector<std::string> &skipped) override;
  void recordAnnotation(
      const std::vector<std::pair<std::string, std::string>> &data) override;
  void pushCompileContext(std::string &context) override;
  void popCompileContext() override;
  void setUserMetadata(const std::string &data) override;
  std::string getUserMetadata() override;
  void attachOutOfMemoryObserver(
      c10::cuda::CUDACachingAllocator::OutOfMemoryObserver observer) override;
  void attachAllocatorTraceTracker(
      c10::cuda::CUDACachingAllocator::AllocatorTraceTracker tracker) override;
  void enablePeerAccess(c10::DeviceIndex device,
                        c10::DeviceIndex peer) override;
  cudaError_t memcpyAsync(void *to, int toDevice, const void *from,
                          int fromDevice, size_t bytes, cudaStream_t stream,
                          bool peers) override;
  std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState>
  getCheckpointState(c10::DeviceIndex device, c10::MempoolId_t pool) override;
  c10::cuda::CUDACachingAllocator::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device,
      std::shared_ptr<c10::cuda::CUDACachingAllocator::AllocatorState> state)
      override;

private:
  CUDAAllocator &own;
  MemoryHooks hooks;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_DRIVERS_CUDA_CUDAALLOCATOR_H

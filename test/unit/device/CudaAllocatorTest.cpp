// Tests that PyTorch's CUDA kernels get their memory from a plan where it lends
// some, and that everything else stays with PyTorch's own allocator, here one
// of host memory.
#include "drivers/cuda/CudaAllocator.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace fsdp;

namespace caching = c10::cuda::CUDACachingAllocator;

namespace {

/// What a plan lends: the front of a block, while `lending`.
struct Lender {
  bool lending = true;
  std::vector<void *> taken, released;
  alignas(64) char block[1024];

  bool owns(const void *pointer) const {
    return pointer >= block && pointer < block + sizeof(block);
  }
};
Lender *lender;

c10::DataPtr lend(size_t bytes) {
  if (!lender->lending)
    return {};
  lender->taken.push_back(lender->block);
  return {lender->block, lender->block,
          [](void *pointer) { lender->released.push_back(pointer); },
          c10::Device(c10::kCUDA, 0)};
}

bool takeBack(void *pointer) {
  if (!lender->owns(pointer))
    return false;
  lender->released.push_back(pointer);
  return true;
}

/// Stands for PyTorch's allocator, in host memory.
class HostAllocator final : public CudaAllocator {
public:
  HostAllocator()
      : CudaAllocator(*caching::get(), {[](size_t) { return c10::DataPtr(); },
                                        [](void *) { return false; }}) {}

  c10::DataPtr allocate(size_t bytes) override {
    void *block = raw_alloc(bytes);
    return {block, block, raw_deleter(), c10::Device(c10::kCUDA, 0)};
  }
  void *raw_alloc(size_t bytes) override {
    sizes.push_back(bytes);
    return bytes ? std::malloc(bytes) : nullptr;
  }
  void raw_delete(void *pointer) override {
    freed.push_back(pointer);
    std::free(pointer);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void recordStream(const c10::DataPtr &pointer,
                    c10::cuda::CUDAStream stream) override {
    recorded.push_back(pointer.get());
  }
  void copy_data(void *to, const void *from, size_t bytes) const override {
    std::memcpy(to, from, bytes);
  }

  std::vector<size_t> sizes;
  std::vector<void *> freed, recorded;
};

class CudaAllocatorTest : public testing::Test {
protected:
  CudaAllocatorTest() { ::lender = &lender; }

  Lender lender;
  HostAllocator own;
  CudaAllocator allocator{own, {&lend, &takeBack}};
};

} // namespace

TEST_F(CudaAllocatorTest, AsksTheHooksFirst) {
  {
    c10::DataPtr lent = allocator.allocate(100);
    EXPECT_TRUE(lender.owns(lent.get()));
  }
  EXPECT_EQ(lender.released, lender.taken);
  EXPECT_TRUE(own.sizes.empty());
}

TEST_F(CudaAllocatorTest, AsksPyTorchWhereTheHooksGiveNothing) {
  lender.lending = false;
  c10::DataPtr block = allocator.allocate(100);
  EXPECT_FALSE(lender.owns(block.get()));
  EXPECT_EQ(own.sizes, std::vector<size_t>{100});
}

TEST_F(CudaAllocatorTest, NoBytesAreNotLent) {
  EXPECT_EQ(allocator.allocate(0).get(), nullptr);
  EXPECT_EQ(allocator.raw_alloc(0), nullptr);
  allocator.raw_delete(nullptr);
  EXPECT_TRUE(lender.taken.empty());
}

// As libraries do that know nothing of tensors.
TEST_F(CudaAllocatorTest, RawMemoryGoesBackToWhereItCameFrom) {
  void *lent = allocator.raw_alloc(100);
  lender.lending = false;
  void *block = allocator.raw_alloc(100);
  EXPECT_TRUE(lender.released.empty()) << "still in use";
  allocator.raw_delete(lent);
  allocator.raw_delete(block);
  EXPECT_EQ(lender.released, std::vector<void *>{lent});
  EXPECT_EQ(own.freed, std::vector<void *>{block});
}

TEST_F(CudaAllocatorTest, RawMemoryIsFreedThroughTheAllocatorInForce) {
  caching::CUDAAllocator *before = caching::allocator.exchange(&allocator);
  void *lent = caching::get()->raw_allocate(100);
  caching::get()->raw_deallocate(lent);
  caching::allocator.store(before);
  EXPECT_EQ(lender.released, std::vector<void *>{lent});
}

TEST_F(CudaAllocatorTest, AStreamIsRecordedForPyTorchsMemoryOnly) {
  c10::cuda::CUDAStream stream = c10::cuda::getStreamFromExternal(
      reinterpret_cast<cudaStream_t>(&lender), 0);
  c10::DataPtr lent = allocator.allocate(100);
  lender.lending = false;
  c10::DataPtr block = allocator.allocate(100);
  allocator.recordStream(lent, stream);
  allocator.recordStream(block, stream);
  EXPECT_EQ(own.recorded, std::vector<void *>{block.get()});
}

TEST_F(CudaAllocatorTest, ACloneOfPyTorchsMemoryIsLent) {
  lender.lending = false;
  c10::DataPtr block = allocator.allocate(100);
  std::memset(block.get(), 7, 100);
  lender.lending = true;
  c10::DataPtr clone = allocator.clone(block.get(), 100);
  EXPECT_TRUE(lender.owns(clone.get()));
  EXPECT_EQ(std::count(lender.block, lender.block + 100, 7), 100);
}

#include "executor/Scratch.h"

#include "plan/AlignUp.h"

#include <algorithm>

namespace fsdp {

uint64_t BlockStack::push(uint64_t bytes) {
  uint64_t begin = top();
  uint64_t end = begin + alignUp(bytes);
  blocks.push_back({begin, end, false});
  return begin;
}

void BlockStack::remove(uint64_t offset) {
  for (size_t i = blocks.size(); i-- > 0;)
    if (blocks[i].begin == offset) {
      blocks[i].removed = true;
      break;
    }
  while (!blocks.empty() && blocks.back().removed)
    blocks.pop_back();
}

static thread_local Scratch *inUse = nullptr;

UseScratch::UseScratch(Scratch &scratch) : previous(inUse), source(scratch) {
  inUse = &scratch;
}

UseScratch::~UseScratch() { inUse = previous; }

Scratch::~Scratch() {
  for (const DeviceMemory &memory : regions)
    forgetMemory(memory.data());
}

c10::DataPtr Scratch::allocate(size_t bytes) {
  uint64_t offset = blocks.push(bytes);
  if (blocks.top() <= size)
    return {region + offset, region + offset, &Scratch::release, device};
  blocks.remove(offset);
  return allocateOutside(bytes);
}

c10::DataPtr Scratch::allocateOutside(size_t bytes) {
  outside += bytes;
  return defaultAllocator(device.type()).allocate(bytes);
}

void Scratch::release(void *pointer) {
  auto *p = static_cast<char *>(pointer);
  if (inUse && inUse->region <= p && p < inUse->region + inUse->size)
    inUse->blocks.remove(p - inUse->region);
}

void Scratch::replace(uint64_t bytes) {
  regions.push_back(allocateRegion(bytes));
  region = regions.back().data();
  size = bytes;
  blocks = {};
  kept = false;
  lendMemory(region, region + size);
}

void Scratch::grow() {
  if (wanted <= size)
    return;
  if (blocks.empty() && !regions.empty() && !kept) {
    forgetMemory(region);
    regions.pop_back();
  }
  replace(wanted);
}

bool Scratch::reclaim() {
  if (blocks.empty())
    return true;
  replace(size);
  return false;
}

} // namespace fsdp

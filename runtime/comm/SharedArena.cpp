#include "comm/SharedArena.h"

#include "Error.h"
#include "device/HugePages.h"
#include "plan/AlignUp.h"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace fsdp {

static uint64_t wholePages(uint64_t bytes) {
  return alignUp(bytes, SharedSegment::pageBytes());
}

static bool isWholePages(const WindowPart &part) {
  auto whole = [](uint64_t bytes) { return wholePages(bytes) == bytes; };
  return whole(part.source) && whole(part.destination) && whole(part.bytes);
}

SharedArena::SharedArena(const ArenaLayout &layout, int rank, int size)
    : rank(rank), arenaAt(wholePages(layout.guard)),
      arenaBytes(layout.arenaBytes), guard(layout.guard),
      windowBytes(layout.windowBytes), parts(layout.window), segments(size) {
  windowIsMapped =
      windowBytes > 0 && std::all_of(parts.begin(), parts.end(), isWholePages);
  uint64_t windowAt = wholePages(arenaAt + arenaBytes + guard);
  segments[rank] =
      SharedSegment::create(windowAt + (windowIsMapped ? 0 : windowBytes));
  segments[rank].populate();
  char *base = segments[rank].data();
  if (!windowIsMapped)
    windowMemory = base + windowAt;
  std::memset(base + arenaAt - guard, poisonByte, guard);
  std::memset(base + arenaAt + arenaBytes, poisonByte, guard);
}

SharedArena::~SharedArena() {
  if (windowIsMapped && windowMemory)
    munmap(windowMemory, windowBytes);
}

void SharedArena::connect(
    const std::vector<SharedSegment::Address> &addresses) {
  for (size_t r = 0; r < segments.size(); ++r)
    if (r != static_cast<size_t>(rank))
      segments[r] = SharedSegment::open(addresses[r]);
  if (!windowIsMapped)
    return;
  windowMemory = mapAligned(windowBytes);
  if (!windowMemory)
    throw Error(E::OutOfMemory, "cannot map a window of " +
                                    std::to_string(windowBytes) + " bytes");
  for (const WindowPart &part : parts) {
    if (part.destination + part.bytes * part.ranks.size > windowBytes ||
        part.source + part.bytes > arenaBytes)
      throw Error(E::PlanAddress,
                  "the plan's window shows memory outside the arena; lower "
                  "the step again");
    for (uint32_t i = 0; i < part.ranks.size; ++i)
      segments[part.ranks[i]].showAt(windowMemory + part.destination +
                                         i * part.bytes,
                                     arenaAt + part.source, part.bytes);
  }
}

void SharedArena::closeDescriptors() {
  for (SharedSegment &segment : segments)
    segment.closeDescriptor();
}

bool SharedArena::guardsIntact() const {
  auto intact = [&](const char *begin) {
    return std::all_of(begin, begin + guard, [](char c) {
      return static_cast<unsigned char>(c) == poisonByte;
    });
  };
  return intact(arena() - guard) && intact(arena() + arenaBytes);
}

} // namespace fsdp

#ifndef FSDP_RUNTIME_COMM_SHAREDSEGMENT_H
#define FSDP_RUNTIME_COMM_SHAREDSEGMENT_H

#include <cstdint>

namespace fsdp {

/// Zeroed memory that other processes of this host can map. It has no name in
/// any file system: when the last process that maps it ends, however it ends,
/// the memory is gone.
class SharedSegment {
public:
  /// Where another process finds it, as long as the descriptor is open.
  struct Address {
    int64_t process;
    int64_t descriptor;
    uint64_t device, inode;
    uint64_t bytes;
  };

  SharedSegment() = default;
  /// Throws Error when there is no memory.
  static SharedSegment create(uint64_t bytes);
  /// Maps another process's, or this one's once more. Throws Error saying why
  /// it cannot.
  static SharedSegment open(const Address &address);
  ~SharedSegment();
  SharedSegment(SharedSegment &&other) noexcept { swap(other); }
  SharedSegment &operator=(SharedSegment &&other) noexcept {
    swap(other);
    return *this;
  }

  char *data() const { return memory; }
  uint64_t size() const { return bytes; }
  bool contains(const void *pointer) const {
    const char *p = static_cast<const char *>(pointer);
    return p >= memory && p < memory + bytes;
  }
  Address address() const;
  /// Has every page from now on: later writes need no help of the kernel, and
  /// find memory near this thread's CPU. Throws Error when there is none.
  void populate();
  /// Shows the pages from `offset` on at `target` as well, to be read, in place
  /// of what is mapped there. All are multiples of a page. Throws Error.
  void showAt(char *target, uint64_t offset, uint64_t count) const;
  /// Once all that need it have mapped it: mappings stay.
  void closeDescriptor();

  static uint64_t pageBytes();

private:
  void swap(SharedSegment &other);
  void map();

  int descriptor = -1;
  char *memory = nullptr;
  uint64_t bytes = 0;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_COMM_SHAREDSEGMENT_H

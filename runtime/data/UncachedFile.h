#ifndef FSDP_RUNTIME_DATA_UNCACHEDFILE_H
#define FSDP_RUNTIME_DATA_UNCACHEDFILE_H

#include <cstdint>
#include <functional>
#include <string>

namespace fsdp {

/// Writes a new file past the page cache, where the file system can: then the
/// processor copies no byte of it, and it takes no memory from other files. It
/// is for what is large and not read soon. On return the bytes are on the disk.
///
/// `data` begins a page, of the last of which all bytes can be read.
/// `beforeBlock` is called before every 4 MiB; what it throws ends the writing.
/// Throws Error. Either leaves a part of the file.
void writeUncached(const std::string &path, const char *data, uint64_t bytes,
                   const std::function<void()> &beforeBlock);

} // namespace fsdp

#endif // FSDP_RUNTIME_DATA_UNCACHEDFILE_H

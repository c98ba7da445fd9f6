#include "data/SafeTensors.h"

#include "plan/Files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sys/file.h>
#include <unistd.h>

namespace fsdp {

static const char partial[] = ".partial.";

/// A writer holds a lock on its file, so one without a lock is nobody's.
static void removeLeftovers(const std::string &path) {
  namespace fs = std::filesystem;
  const std::string prefix = fs::path(path).filename().string() + partial;
  std::error_code ignored;
  fs::path folder = fs::path(path).parent_path();
  for (const auto &entry :
       fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    if (entry.path().filename().string().rfind(prefix, 0) != 0)
      continue;
    int file = open(entry.path().c_str(),
                    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
      continue;
    if (flock(file, LOCK_EX | LOCK_NB) == 0)
      unlink(entry.path().c_str());
    close(file);
  }
}

SafeTensorsWriter::SafeTensorsWriter(const std::string &path,
                                     std::vector<Tensor> tensors)
    : path(path), temporary(path + partial + std::to_string(getpid())) {
  // Wide types first keep every tensor aligned.
  std::stable_sort(
      tensors.begin(), tensors.end(), [](const Tensor &a, const Tensor &b) {
        return plan::dtypeBytes(a.dtype) > plan::dtypeBytes(b.dtype);
      });
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  uint64_t end = 0;
  for (const Tensor &tensor : tensors) {
    const char *type = plan::findDType(tensor.dtype)->safetensors;
    if (!type)
      throw Error("cannot save " + tensor.name + ": safetensors has no " +
                  plan::dtypeName(tensor.dtype));
    uint64_t bytes =
        *plan::numElements(tensor.shape) * plan::dtypeBytes(tensor.dtype);
    ranges[tensor.name] = {end, bytes};
    json[tensor.name] = {{"dtype", type},
                         {"shape", tensor.shape},
                         {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  removeLeftovers(path);
  file = makeFile(temporary);
  flock(file, LOCK_EX | LOCK_NB);
  char length[8];
  for (int i = 0; i < 8; ++i)
    length[i] = static_cast<char>(header.size() >> (8 * i));
  writeAt(length, 8, 0);
  writeAt(header.data(), header.size(), 8);
  for (auto &range : ranges)
    range.second.begin += 8 + header.size();
}

SafeTensorsWriter::~SafeTensorsWriter() {
  if (file < 0)
    return;
  close(file);
  unlink(temporary.c_str());
}

void SafeTensorsWriter::writeAt(const void *data, uint64_t bytes,
                                uint64_t offset) {
  const char *from = static_cast<const char *>(data);
  while (bytes) {
    ssize_t n = pwrite(file, from, bytes, offset);
    if (n < 0 && errno == EINTR)
      continue;
    if (n <= 0)
      throw Error("cannot write " + path + ": " + std::strerror(errno));
    from += n;
    offset += n;
    bytes -= n;
  }
}

void SafeTensorsWriter::write(const std::string &tensor, const void *data) {
  write(tensor, 0, data, ranges.at(tensor).bytes);
}

void SafeTensorsWriter::write(const std::string &tensor, uint64_t begin,
                              const void *data, uint64_t bytes) {
  Range &range = ranges.at(tensor);
  writeAt(data, bytes, range.begin + begin);
  range.written += bytes;
}

void SafeTensorsWriter::finish() {
  for (const auto &[tensor, range] : ranges)
    if (range.written != range.bytes)
      throw Error("tensor " + tensor + " of " + path + " was not written");
  if (fsync(file) != 0 || close(file) != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    file = -1;
    throw Error("cannot write " + path + ": " + why);
  }
  file = -1;
}

} // namespace fsdp

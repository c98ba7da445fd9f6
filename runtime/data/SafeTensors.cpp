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

SafeTensorsLayout::SafeTensorsLayout(std::vector<Tensor> tensors) {
  std::stable_sort(
      tensors.begin(), tensors.end(), [](const Tensor &a, const Tensor &b) {
        return plan::dtypeBytes(a.dtype) > plan::dtypeBytes(b.dtype);
      });
  nlohmann::ordered_json json;
  json["__metadata__"] = {{"format", "pt"}};
  for (const Tensor &tensor : tensors) {
    const char *type = plan::findDType(tensor.dtype)->safetensors;
    if (!type)
      throw Error(E::Dtype, "cannot save " + tensor.name +
                                ": safetensors has no " +
                                plan::dtypeName(tensor.dtype));
    uint64_t bytes =
        *plan::numElements(tensor.shape) * plan::dtypeBytes(tensor.dtype);
    places[tensor.name] = {end, bytes};
    json[tensor.name] = {{"dtype", type},
                         {"shape", tensor.shape},
                         {"data_offsets", {end, end + bytes}}};
    end += bytes;
  }
  std::string header = json.dump();
  header.resize((header.size() + 7) / 8 * 8, ' ');
  for (int i = 0; i < 8; ++i)
    text += static_cast<char>(header.size() >> (8 * i));
  text += header;
  for (auto &place : places)
    place.second.begin += text.size();
  end += text.size();
}

SafeTensorsWriter::SafeTensorsWriter(const std::string &path,
                                     std::vector<Tensor> tensors)
    : layout(std::move(tensors)), path(path),
      temporary(path + partial + std::to_string(getpid())) {
  removeLeftovers(path);
  file = makeFile(temporary);
  flock(file, LOCK_EX | LOCK_NB);
  try {
    writeAt(layout.header().data(), layout.header().size(), 0);
  } catch (...) { // without an object there is no destructor's call
    discard();
    throw;
  }
}

SafeTensorsWriter::~SafeTensorsWriter() { discard(); }

void SafeTensorsWriter::discard() {
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
      throw Error(E::FileUnwritable,
                  "cannot write " + path + ": " + std::strerror(errno));
    from += n;
    offset += n;
    bytes -= n;
  }
}

void SafeTensorsWriter::write(const std::string &tensor, const void *data) {
  write(tensor, 0, data, layout.ranges().at(tensor).bytes);
}

void SafeTensorsWriter::write(const std::string &tensor, uint64_t begin,
                              const void *data, uint64_t bytes) {
  writeAt(data, bytes, layout.ranges().at(tensor).begin + begin);
  written[tensor] += bytes;
}

void SafeTensorsWriter::finish() {
  for (const auto &[tensor, range] : layout.ranges())
    if (written[tensor] != range.bytes)
      throw Error(E::FileUnwritable,
                  "tensor " + tensor + " of " + path + " was not written");
  if (fsync(file) != 0 || close(file) != 0 ||
      rename(temporary.c_str(), path.c_str()) != 0) {
    std::string why = std::strerror(errno);
    unlink(temporary.c_str());
    file = -1;
    throw Error(E::FileUnwritable, "cannot write " + path + ": " + why);
  }
  file = -1;
}

} // namespace fsdp

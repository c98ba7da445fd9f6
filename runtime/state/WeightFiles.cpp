#include "state/WeightFiles.h"

#include "comm/HostProcess.h"
#include "plan/Files.h"
#include "state/Hash.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/stat.h>

namespace fsdp {

namespace fs = std::filesystem;

static constexpr uint64_t maxIndexBytes = 100'000'000, maxIndexDepth = 16;

/// The files that an index names, beside it.
static std::set<fs::path> filesOfIndex(const fs::path &index) {
  auto bad = [&] {
    return Error(E::WeightsFile, index.string() +
                                     " is no index of weights: it has no "
                                     "weight_map from names to files");
  };
  std::string text = readRegularFile(index.string(), maxIndexBytes);
  if (nestingOf(text).depth > maxIndexDepth)
    throw bad();
  auto json = nlohmann::json::parse(text, nullptr, /*exceptions=*/false);
  if (!json.is_object() || !json.contains("weight_map") ||
      !json["weight_map"].is_object())
    throw bad();
  std::set<fs::path> files;
  for (const auto &[tensor, file] : json["weight_map"].items()) {
    if (!file.is_string())
      throw bad();
    files.insert(index.parent_path() / file.get<std::string>());
  }
  return files;
}

static std::set<fs::path> filesAt(const fs::path &path) {
  if (path.extension() == ".json")
    return filesOfIndex(path);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored))
    return {path};
  fs::path index = path / "model.safetensors.index.json";
  if (fs::exists(index, ignored))
    return filesOfIndex(index);
  std::set<fs::path> files;
  for (const auto &entry : fs::directory_iterator(path, ignored))
    if (entry.path().extension() == ".safetensors")
      files.insert(entry.path());
  if (files.empty())
    throw Error(E::WeightsFile,
                "folder " + path.string() + " has no .safetensors file");
  return files;
}

WeightFiles::WeightFiles(const std::string &path) : name(path) {
  for (const fs::path &file : filesAt(path)) {
    files.push_back(std::make_unique<SafeTensorsFile>(file.string()));
    for (size_t i = 0; i + 1 < files.size(); ++i)
      for (const auto &[key, tensor] : files.back()->tensors())
        if (files[i]->find(key))
          throw Error(
              E::WeightsFile,
              key + " is in both " + files[i]->path() + " and " +
                  file.string() +
                  "; name one file, or a folder that has each tensor once");
  }
}

WeightFiles::Found WeightFiles::findStored(const std::string &key) const {
  for (const auto &file : files) {
    if (const FileTensor *tensor = file->find(key))
      return {file.get(), tensor};
    auto alias = file->metadata().find(key);
    if (alias != file->metadata().end())
      if (const FileTensor *tensor = file->find(alias->second))
        return {file.get(), tensor};
  }
  return {};
}

WeightFiles::Found
WeightFiles::find(const std::string &key,
                  const std::vector<std::string> &aliases) const {
  Found found = findStored(key);
  for (size_t i = 0; !found && i < aliases.size(); ++i)
    found = findStored(aliases[i]);
  return found;
}

uint64_t WeightFiles::identity() const {
  std::string all = thisHost().boot;
  for (const auto &file : files) {
    struct stat found = {};
    fstat(file->descriptor(), &found);
    for (auto number : {found.st_dev, found.st_ino})
      all += "/" + std::to_string(number);
  }
  return checkpoint::hashOf(all.data(), all.size());
}

uint64_t WeightFiles::fingerprint(size_t share, size_t shares) const {
  uint64_t sum = 0, number = 0;
  auto isMine = [&] { return number++ % shares == share; };
  auto add = [&](const char *data, size_t bytes) {
    uint64_t hashes[] = {number, checkpoint::hashOf(data, bytes)};
    sum += checkpoint::hashOf(hashes, sizeof(hashes));
  };
  std::vector<char> block;
  for (const auto &file : files)
    for (const auto &[key, tensor] : file->tensors()) {
      std::string text = key + describe(tensor.dtype, tensor.shape);
      if (isMine())
        add(text.data(), text.size());
      for (uint64_t begin = 0; begin < tensor.bytes;) {
        uint64_t bytes = std::min<uint64_t>(checkpoint::hashBlockBytes,
                                            tensor.bytes - begin);
        if (isMine()) {
          block.resize(bytes);
          file->read(tensor, begin, bytes, block.data());
          add(block.data(), bytes);
        }
        begin += bytes;
      }
    }
  return sum;
}

} // namespace fsdp

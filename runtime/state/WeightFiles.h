#ifndef FSDP_RUNTIME_STATE_WEIGHTFILES_H
#define FSDP_RUNTIME_STATE_WEIGHTFILES_H

#include "data/SafeTensorsFile.h"

#include <memory>
#include <string>
#include <vector>

namespace fsdp {

/// A model's weights in one or several safetensors files, in which tied tensors
/// may be stored under one of their names.
class WeightFiles {
public:
  /// A tensor and the file it is in.
  struct Found {
    const SafeTensorsFile *file = nullptr;
    const FileTensor *tensor = nullptr;
    explicit operator bool() const { return tensor; }
  };

  /// `path` is a file, an index of files (model.safetensors.index.json), or a
  /// folder that has an index, or else whose safetensors files are meant.
  /// Throws Error when one of them is missing or broken, or when a tensor is
  /// in two of them.
  explicit WeightFiles(const std::string &path);

  /// `aliases` are the further names of a tied tensor.
  Found find(const std::string &name,
             const std::vector<std::string> &aliases = {}) const;
  const std::string &path() const { return name; }
  /// The same number for ranks that read the very same files of one host, and
  /// hardly for others.
  uint64_t identity() const;
  /// Reads a share of all names, shapes and bytes. What the shares come to,
  /// from 0 below `shares`, add up to a number that other weights hardly have.
  /// Throws Error where a file cannot be read.
  uint64_t fingerprint(size_t share, size_t shares) const;

private:
  Found findStored(const std::string &name) const;
  std::string name;
  std::vector<std::unique_ptr<SafeTensorsFile>> files;
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_WEIGHTFILES_H

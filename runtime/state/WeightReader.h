#ifndef FSDP_RUNTIME_STATE_WEIGHTREADER_H
#define FSDP_RUNTIME_STATE_WEIGHTREADER_H

#include "comm/Communicator.h"
#include "state/StateMap.h"
#include "state/WeightFiles.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace fsdp {

/// Brings tensors from files into ranks' memory. All ranks do the same with it.
class WeightReader {
public:
  /// What a rank wants of a tensor.
  using RunsOf = std::function<std::vector<Run>(int rank)>;

  /// `path`: see WeightFiles. With `fromRank0` rank 0 alone opens it, and sends
  /// each rank its part; else the files of all ranks must be the same. Throws
  /// Error.
  WeightReader(const std::string &path, bool fromRank0,
               Communicator &communicator);

  /// Whether the files have one of these.
  bool hasAny(const std::vector<const NamedTensor *> &tensors);

  /// Throws Error that lists what the files lack, or have in another shape or
  /// dtype.
  void check(const std::vector<const NamedTensor *> &tensors) const;

  /// Reads this rank's runs of a tensor to `local`.
  void read(const NamedTensor &tensor, const RunsOf &runsOf, char *local);

private:
  void requireSame();
  void scatter(const NamedTensor &tensor, const RunsOf &runsOf, char *local);

  Communicator &communicator;
  std::string path;
  bool scatters;
  std::optional<WeightFiles> files; // where this rank reads
};

} // namespace fsdp

#endif // FSDP_RUNTIME_STATE_WEIGHTREADER_H

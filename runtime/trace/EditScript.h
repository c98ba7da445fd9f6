// The fewest insertions and removals that make one list of another.
#ifndef FSDP_RUNTIME_TRACE_EDITSCRIPT_H
#define FSDP_RUNTIME_TRACE_EDITSCRIPT_H

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fsdp::trace {

/// The pairs of positions that stay, in order: a longest common subsequence.
/// Nothing where that takes more than `most` insertions and removals.
std::optional<std::vector<std::pair<size_t, size_t>>>
commonSubsequence(const std::vector<std::string> &before,
                  const std::vector<std::string> &after, size_t most);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_EDITSCRIPT_H

#ifndef FSDP_PLAN_LOADEDLIBRARIES_H
#define FSDP_PLAN_LOADEDLIBRARIES_H

#include <string>
#include <vector>

namespace fsdp {

/// The files of shared libraries whose names begin so, of those that this
/// process has loaded, whoever loaded them.
std::vector<std::string> loadedLibraries(const std::string &name);

} // namespace fsdp

#endif // FSDP_PLAN_LOADEDLIBRARIES_H

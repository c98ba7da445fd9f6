#ifndef FSDP_RUNTIME_FLAGORARGUMENT_H
#define FSDP_RUNTIME_FLAGORARGUMENT_H

#include <string>

namespace fsdp {

/// Said once by a process whose users call functions of Python.
void takeArguments();

/// What an error tells people to give: to a program a flag, as in "--weights
/// FILE", to a function of Python an argument, as in "weights=FILE".
std::string flagOrArgument(const std::string &flag,
                           const std::string &argument);

} // namespace fsdp

#endif // FSDP_RUNTIME_FLAGORARGUMENT_H

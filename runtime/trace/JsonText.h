// Values as JSON.
#ifndef FSDP_RUNTIME_TRACE_JSONTEXT_H
#define FSDP_RUNTIME_TRACE_JSONTEXT_H

#include <string>

namespace fsdp::trace {

/// What is no UTF-8 is replaced.
std::string jsonString(const std::string &text);

/// Finite; whole numbers are written as such.
std::string jsonNumber(double value);

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_JSONTEXT_H

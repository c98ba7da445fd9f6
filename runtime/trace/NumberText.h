// Numbers as people read them.
#ifndef FSDP_RUNTIME_TRACE_NUMBERTEXT_H
#define FSDP_RUNTIME_TRACE_NUMBERTEXT_H

#include <cstdint>
#include <string>

namespace fsdp::trace {

/// "1,234".
std::string grouped(uint64_t value);

/// "1234.5", with one decimal.
std::string fixed(double value);

/// "12.3 us".
inline std::string microsText(double seconds) {
  return fixed(seconds * 1e6) + " us";
}

} // namespace fsdp::trace

#endif // FSDP_RUNTIME_TRACE_NUMBERTEXT_H

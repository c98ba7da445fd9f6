#include "trace/NumberText.h"

#include <iomanip>
#include <sstream>

namespace fsdp::trace {

std::string grouped(uint64_t value) {
  std::string text = std::to_string(value);
  for (int at = static_cast<int>(text.size()) - 3; at > 0; at -= 3)
    text.insert(at, ",");
  return text;
}

std::string fixed(double value) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << value;
  return text.str();
}

} // namespace fsdp::trace

#include "trace/JsonText.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace fsdp::trace {

std::string jsonString(const std::string &text) {
  return nlohmann::json(text).dump(-1, ' ', /*ensure_ascii=*/false,
                                   nlohmann::json::error_handler_t::replace);
}

std::string jsonNumber(double value) {
  if (std::isfinite(value) && value == std::floor(value) &&
      std::abs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  return nlohmann::json(value).dump();
}

} // namespace fsdp::trace

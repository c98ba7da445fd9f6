#include "plan/OperatorSchema.h"

#include <algorithm>
#include <iterator>

using namespace fsdp::plan;

std::string SchemaType::str() const {
  static constexpr const char *names[] = {
      "Tensor", "int",       "float",        "bool",   "str",
      "Scalar", "complex",   "ScalarType",   "Layout", "MemoryFormat",
      "Device", "Generator", "<unsupported>"};
  std::string text = names[static_cast<size_t>(kind)];
  if (optionalMembers)
    text += "?";
  if (list)
    text += "[]";
  if (optional)
    text += "?";
  return text;
}

bool fsdp::plan::takesUndefined(std::string_view name,
                                std::string_view argument) {
  static constexpr std::string_view prefix = "aten::_scaled_dot_product_",
                                    suffix = "_backward";
  static constexpr std::string_view names[] = {
      "attn_bias", "cum_seq_k", "cum_seq_q", "philox_offset", "philox_seed"};
  return name.size() > prefix.size() + suffix.size() &&
         name.substr(0, prefix.size()) == prefix &&
         name.substr(name.size() - suffix.size()) == suffix &&
         std::find(std::begin(names), std::end(names), argument) !=
             std::end(names);
}

bool fsdp::plan::isQuietView(std::string_view name) {
  return name == "aten::_unsafe_view";
}

bool fsdp::plan::isFusedOptimizer(std::string_view name) {
  return name == "aten::_fused_adam" || name == "aten::_fused_adamw" ||
         name == "aten::_fused_sgd" || name == "aten::_fused_adagrad";
}

bool fsdp::plan::holdsScalar(std::string_view name) {
  return name == "aten::scalar_tensor";
}

// Where the results of view operators begin.
#include "plan/meaning/ProgramTerms.h"

#include <algorithm>

using namespace fsdp::plan;

namespace {

/// An integer argument; `otherwise` where the schema's default stands.
int64_t integer(const AtenT &call, size_t i, int64_t otherwise) {
  if (i >= call.arguments.size() ||
      call.arguments[i]->kind != ArgumentKind::Int)
    return otherwise;
  return call.arguments[i]->i;
}

struct Dimension {
  int64_t size, stride;
};

std::optional<Dimension> dimension(const ValueT &value, int64_t dim) {
  int64_t rank = value.shape.size();
  dim += dim < 0 ? rank : 0;
  if (dim < 0 || dim >= rank)
    return std::nullopt;
  return Dimension{value.shape[dim], value.strides[dim]};
}

int64_t wrap(int64_t index, int64_t size) {
  return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size);
}

/// Views that begin where their argument does.
bool beginsThere(const std::string &name) {
  static const std::set<std::string> names = {
      "aten::view",      "aten::_unsafe_view", "aten::reshape", "aten::t",
      "aten::transpose", "aten::permute",      "aten::detach",  "aten::alias",
      "aten::expand",    "aten::unsqueeze",    "aten::squeeze", "aten::view_as",
      "aten::flatten"};
  return names.count(name);
}

} // namespace

std::optional<int64_t> fsdp::plan::viewOffset(const AtenT &call,
                                              const ValueT &argument,
                                              size_t result, bool &absolute) {
  absolute = false;
  if (beginsThere(call.name))
    return 0;
  if (call.name == "aten::as_strided") {
    if (call.arguments.size() < 4 ||
        call.arguments[3]->kind != ArgumentKind::Int)
      return 0;
    absolute = true;
    return call.arguments[3]->i;
  }
  // By the dimension that the view is along; a hostile size is cut off.
  bool isSplit = call.name == "aten::split" && call.overload == "Tensor";
  bool hasSizes = call.name == "aten::split_with_sizes";
  auto dim = dimension(argument, integer(call, isSplit || hasSizes ? 2 : 1, 0));
  if (!dim)
    return std::nullopt;
  int64_t index = 0;
  if (call.name == "aten::slice" || call.name == "aten::select") {
    index = wrap(integer(call, 2, 0), dim->size);
  } else if (call.name == "aten::unbind") {
    index = result;
  } else if (isSplit) {
    index = result * wrap(integer(call, 1, 0), dim->size);
  } else if (hasSizes && call.arguments.size() > 1 &&
             call.arguments[1]->ints.size() > result) {
    for (size_t i = 0; i < result; ++i)
      index += wrap(call.arguments[1]->ints[i], dim->size);
  } else {
    return std::nullopt;
  }
  return std::min(index, dim->size) * dim->stride;
}

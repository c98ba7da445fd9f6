#include "plan/PlanTypes.h"
#include "plan/FormatText.h"

#include <algorithm>
#include <limits>

using namespace fsdp::plan;

std::optional<int64_t>
fsdp::plan::numElements(const std::vector<int64_t> &shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    if (size < 0 || __builtin_mul_overflow(count, size, &count))
      return std::nullopt;
  return count;
}

std::optional<uint64_t>
fsdp::plan::spanBytes(const std::vector<int64_t> &shape,
                      const std::vector<int64_t> &strides, DType dtype) {
  std::optional<int64_t> count = numElements(shape);
  if (!count || shape.size() != strides.size())
    return std::nullopt;
  int64_t last = 0;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t reach;
    if (strides[i] < 0)
      return std::nullopt;
    if (*count == 0)
      continue;
    if (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return std::nullopt;
  }
  if (*count == 0)
    return 0;
  uint64_t bytes;
  if (__builtin_mul_overflow(static_cast<uint64_t>(last) + 1, dtypeBytes(dtype),
                             &bytes))
    return std::nullopt;
  return bytes;
}

bool fsdp::plan::areApart(const std::vector<int64_t> &shape,
                          const std::vector<int64_t> &strides) {
  std::vector<std::pair<int64_t, int64_t>> dims; // strides and sizes
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0)
      return true;
    if (shape[d] > 1)
      dims.push_back({strides[d], shape[d]});
  }
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0; // of the last element of what lies inside
  for (auto [stride, size] : dims) {
    if (stride <= reach)
      return false;
    reach += stride * (size - 1);
  }
  return true;
}

std::vector<int64_t>
fsdp::plan::rowMajorStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0;) {
    strides[i] = stride;
    // A tensor with so many elements is refused elsewhere, for its number.
    if (__builtin_mul_overflow(stride, std::max<int64_t>(shape[i], 1), &stride))
      stride = std::numeric_limits<int64_t>::max();
  }
  return strides;
}

bool fsdp::plan::samePlace(const Place &a, const Place &b) {
  return a.arena() == b.arena() && a.offset() == b.offset() &&
         a.bytes() == b.bytes();
}

int fsdp::plan::findProgram(const PlanT &plan, const std::string &name) {
  for (size_t i = 0; i < plan.programs.size(); ++i)
    if (plan.programs[i]->name == name)
      return static_cast<int>(i);
  return -1;
}

int fsdp::plan::findState(const PlanT &plan, const std::string &name) {
  for (size_t i = 0; i < plan.states.size(); ++i)
    if (plan.states[i]->fqn == name)
      return static_cast<int>(i);
  return -1;
}

std::vector<int> fsdp::plan::findVariants(const PlanT &plan,
                                          const std::string &name) {
  std::vector<int> variants;
  int first = findProgram(plan, name);
  if (first >= 0)
    variants.push_back(first);
  for (size_t i = 0; first >= 0 && i < plan.programs.size(); ++i)
    if (plan.programs[i]->variant_of == first)
      variants.push_back(static_cast<int>(i));
  return variants;
}

std::vector<int> fsdp::plan::turnsFrom(const PlanT &plan, int first) {
  std::vector<int> turns;
  for (int program = first;
       program >= 0 && turns.size() <= plan.programs.size();
       program = plan.programs.at(program)->next)
    turns.push_back(program);
  return turns;
}

const Place &fsdp::plan::placeOf(const PlanT &plan, const ValueT &value) {
  return value.state >= 0 ? *plan.states.at(value.state)->place : *value.place;
}

uint64_t fsdp::plan::numRanks(const PlanT &plan) {
  uint64_t ranks = 1;
  for (const auto &dim : plan.mesh)
    ranks *= dim->size;
  return ranks;
}

MeshDims fsdp::plan::dimsOf(const PlanT &plan, AxisRole role) {
  MeshDims dims;
  for (uint32_t dim = 0; dim < plan.mesh.size(); ++dim)
    if (plan.mesh[dim]->role == role)
      dims = {dims.count ? dims.first : dim, dims.count + 1};
  return dims;
}

MeshDims fsdp::plan::dimsOf(const CollectiveT &collective) {
  return {collective.mesh_dim, collective.mesh_dims};
}

bool fsdp::plan::isOver(const PlanT &plan, const CollectiveT &collective,
                        AxisRole role) {
  MeshDims dims = dimsOf(collective);
  return dims.count && dims == dimsOf(plan, role);
}

std::string fsdp::plan::formatDims(const PlanT &plan, MeshDims dims) {
  std::string text;
  for (uint32_t i = 0; i < dims.count; ++i)
    text += (i ? " x " : "") + plan.mesh.at(dims.first + i)->name;
  return text;
}

uint32_t fsdp::plan::bitsOf(const PlanT &plan, MeshDims dims) {
  uint32_t bits = 0, next = 1;
  for (uint32_t dim = 0; dim < dims.first + dims.count; ++dim) {
    if (plan.mesh.at(dim)->size == 1)
      continue;
    bits |= dim < dims.first ? 0 : next;
    next <<= 1;
  }
  return bits;
}

RankGroup fsdp::plan::groupOf(const PlanT &plan, MeshDims dims, uint32_t rank,
                              uint32_t neighbours) {
  RankGroup group;
  for (uint32_t dim = dims.first; dim < plan.mesh.size(); ++dim)
    (dim < dims.first + dims.count ? group.size : group.stride) *=
        plan.mesh[dim]->size;
  if (neighbours)
    group.size = neighbours;
  group.first = rank - rank / group.stride % group.size * group.stride;
  return group;
}

RankGroup fsdp::plan::groupOf(const PlanT &plan, const CollectiveT &collective,
                              uint32_t rank) {
  return groupOf(plan, dimsOf(collective), rank, collective.ranks);
}

RankGroup fsdp::plan::shardGroupOf(const PlanT &plan, uint32_t rank) {
  return groupOf(plan, dimsOf(plan, AxisRole::Shard), rank);
}

uint64_t fsdp::plan::numShards(const PlanT &plan) {
  return shardGroupOf(plan, 0).size;
}

bool fsdp::plan::isAddition(const RuleT &rule) {
  if (rule.calls.size() != 1 || rule.operands != 2)
    return false;
  const AtenT &call = *rule.calls[0];
  return call.name == "aten::add" && call.overload == "Tensor" &&
         !call.arguments.empty() &&
         call.arguments[0]->kind == ArgumentKind::Value &&
         call.arguments[0]->value == 0 && rule.results == call.results;
}

bool fsdp::plan::addsGradient(const RuleT &rule) {
  if (!isAddition(rule) || rule.results != std::vector<int>{2})
    return false;
  const auto &arguments = rule.calls[0]->arguments;
  return arguments.size() > 1 && arguments[1]->kind == ArgumentKind::Value &&
         arguments[1]->value == 1 &&
         std::all_of(arguments.begin() + 2, arguments.end(),
                     [](const auto &argument) {
                       return argument->kind == ArgumentKind::Default;
                     });
}

bool fsdp::plan::runsOn(const ShardRange *on, uint64_t shard) {
  return !on || (on->first() <= shard && shard < on->end());
}

std::string fsdp::plan::formatShape(const std::vector<int64_t> &shape) {
  std::string text;
  for (int64_t size : shape)
    appendListed(text, std::to_string(size));
  return "[" + text + "]";
}

// What imitated transfers move and add.
#include "Cliques.h"

#include "Memory.h"

#include <algorithm>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace fsdp::imitation {

namespace {

/// A floating-point maximum drops NaN, as NCCL's.
template <typename T> T reduceTwo(T x, T y, ncclRedOp_t op) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>; // wraps
    return op == ncclMax ? std::max(x, y) : static_cast<T>(U(x) + U(y));
  } else {
    return op == ncclMax ? static_cast<T>(std::fmax(x, y)) : x + y;
  }
}

/// The ranks' numbers, `count` of them, reduced in rank order and rounded after
/// each operation.
template <typename T>
std::vector<char> reduce(const std::vector<Call> &calls, size_t count) {
  std::vector<char> bytes(count * sizeof(T));
  T *sum = reinterpret_cast<T *>(bytes.data());
  for (const Call &call : calls) {
    bool isFirst = &call == &calls.front();
    T factor = 1;
    if (!call.factor.empty())
      std::memcpy(&factor, call.factor.data(), sizeof(T));
    for (size_t i = 0; i < count; ++i) {
      T x = static_cast<const T *>(call.from)[i];
      if (!call.factor.empty())
        x = x * factor;
      sum[i] = isFirst ? x : reduceTwo(sum[i], x, call.op);
    }
  }
  return bytes;
}

struct Type {
  size_t bytes;
  std::vector<char> (*reduce)(const std::vector<Call> &, size_t);
};

template <typename T> constexpr Type typeOf() { return {sizeof(T), reduce<T>}; }

/// By ncclDataType_t.
constexpr Type types[] = {typeOf<int8_t>(),    typeOf<uint8_t>(),
                          typeOf<int32_t>(),   typeOf<uint32_t>(),
                          typeOf<int64_t>(),   typeOf<uint64_t>(),
                          typeOf<c10::Half>(), typeOf<float>(),
                          typeOf<double>(),    typeOf<c10::BFloat16>()};

} // namespace

/// Each receive gets what its peer sends, one after the other.
static std::string performGroup(const std::vector<Call> &calls) {
  for (size_t rank = 0; rank < calls.size(); ++rank) {
    std::vector<size_t> next(calls.size()); // of each peer's messages
    for (const Message &receive : calls[rank].messages) {
      if (receive.from)
        continue;
      const auto &sent = calls[receive.peer].messages;
      size_t &i = next[receive.peer];
      while (i < sent.size() &&
             (!sent[i].from || sent[i].peer != static_cast<int>(rank)))
        ++i;
      if (i == sent.size() || sent[i].bytes != receive.bytes)
        return "a rank receives what nobody sends";
      if (memory().kindOf(sent[i].from, receive.bytes) != Kind::Device ||
          memory().kindOf(receive.to, receive.bytes) != Kind::Device)
        return "a transfer is not of device memory";
      std::memmove(receive.to, sent[i++].from, receive.bytes);
    }
  }
  return "";
}

std::string perform(const std::vector<Call> &calls) {
  const Call &first = calls.front();
  const Type &type = types[first.type];
  size_t ranks = calls.size(), part = first.count * type.bytes;
  bool gathers = first.kind == CallKind::AllGather,
       scatters = first.kind == CallKind::ReduceScatter;
  for (const Call &call : calls) {
    if (call.kind != first.kind)
      return "ranks launch different transfers";
    if (call.kind == CallKind::Group)
      continue;
    if (call.count != first.count)
      return "ranks launch transfers of different counts";
    if (call.type != first.type)
      return "ranks launch transfers of different types";
    if (call.op != first.op || call.factor != first.factor)
      return "ranks launch different reductions";
    if (memory().kindOf(call.from, part * (scatters ? ranks : 1)) !=
            Kind::Device ||
        memory().kindOf(call.to, part * (gathers ? ranks : 1)) != Kind::Device)
      return "a transfer is not of device memory";
  }
  if (first.kind == CallKind::Group)
    return performGroup(calls);
  if (gathers) {
    for (const Call &to : calls)
      for (size_t r = 0; r < ranks; ++r)
        std::memmove(static_cast<char *>(to.to) + r * part, calls[r].from,
                     part);
    return "";
  }
  // Before anything is written, which may be in place.
  std::vector<char> sum =
      type.reduce(calls, first.count * (scatters ? ranks : 1));
  for (size_t r = 0; r < ranks; ++r)
    std::memcpy(calls[r].to, sum.data() + (scatters ? r * part : 0), part);
  return "";
}

} // namespace fsdp::imitation

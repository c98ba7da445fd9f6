// Who owns which bytes while commands run in order. The plan checker and the
// compiler's verify-commands both simulate a program with it.
#ifndef FSDP_PLAN_BYTEOWNERS_H
#define FSDP_PLAN_BYTEOWNERS_H

#include <cstdint>
#include <map>
#include <optional>

namespace fsdp::plan {

/// For every byte of an arena, the storage that wrote it last.
class ByteOwners {
public:
  /// Nobody has written the byte yet.
  static constexpr int64_t nobody = -1;

  /// `owner` writes the bytes [begin, end).
  void write(uint64_t begin, uint64_t end, int64_t owner);

  /// The first owner other than `owner` of a byte in [begin, end), `nobody`
  /// included; nothing where `owner` owns them all.
  std::optional<int64_t> firstOther(uint64_t begin, uint64_t end,
                                    int64_t owner) const;

  /// The first owner of any byte in [begin, end); nothing where nobody has
  /// written one.
  std::optional<int64_t> firstOwner(uint64_t begin, uint64_t end) const;

private:
  struct Range {
    uint64_t end;
    int64_t owner;
  };
  std::map<uint64_t, Range> ranges; // by first byte; disjoint
};

} // namespace fsdp::plan

#endif // FSDP_PLAN_BYTEOWNERS_H

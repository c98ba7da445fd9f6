#include "comm/TransferSignature.h"

#include "Error.h"
#include "plan/Collectives.h"
#include "plan/DTypes.h"

#include <algorithm>
#include <cstring>
#include <sstream>
#include <tuple>

namespace fsdp {

/// A divisor that is no number is equal to itself.
static uint64_t bitsOf(double divisor) {
  uint64_t bits;
  std::memcpy(&bits, &divisor, sizeof(bits));
  return bits;
}

static auto wordsOf(const TransferSignature &signature) {
  return std::make_tuple(signature.kind, signature.op, signature.dtype,
                         signature.count, bitsOf(signature.divisor));
}

TransferSignature TransferSignature::of(const Transfer &transfer) {
  return {
      static_cast<uint64_t>(transfer.kind), static_cast<uint64_t>(transfer.op),
      static_cast<uint64_t>(transfer.dtype), transfer.count, transfer.divisor};
}

bool TransferSignature::operator<(const TransferSignature &other) const {
  return wordsOf(*this) < wordsOf(other);
}

bool TransferSignature::operator==(const TransferSignature &other) const {
  return wordsOf(*this) == wordsOf(other);
}

TransferSignature::Packed TransferSignature::pack() const {
  return {count << 24 | kind << 16 | op << 8 | dtype, bitsOf(divisor)};
}

TransferSignature TransferSignature::unpack(const Packed &packed) {
  TransferSignature signature{packed[0] >> 16 & 0xff, packed[0] >> 8 & 0xff,
                              packed[0] & 0xff, packed[0] >> 24, 0};
  std::memcpy(&signature.divisor, &packed[1], sizeof(signature.divisor));
  return signature;
}

void requireSame(const char *name, int rank, const TransferSignature &mine,
                 int other, const TransferSignature &theirs) {
  if (!(theirs == mine))
    throw Error(E::Collective,
                "rank " + std::to_string(other) + " starts " + theirs.str() +
                    " where rank " + std::to_string(rank) + " starts " +
                    mine.str() + ", in " + name + ranksDoNotDoTheSame);
}

std::string TransferSignature::str() const {
  if (kind > static_cast<uint64_t>(plan::CollectiveKind::MAX) ||
      op > static_cast<uint64_t>(plan::ReduceOp::MAX) ||
      dtype > static_cast<uint64_t>(plan::DType::MAX))
    return "what is no collective";
  const plan::CollectiveInfo &info =
      plan::infoOf(static_cast<plan::CollectiveKind>(kind));
  auto type = static_cast<plan::DType>(dtype);
  std::ostringstream text;
  text << "an " << info.name << " of " << count * plan::dtypeBytes(type)
       << " bytes (" << count << " " << plan::dtypeName(type);
  if (info.reduces && static_cast<plan::ReduceOp>(op) == plan::ReduceOp::Max)
    text << ", the largest";
  if (info.reduces && divisor != 1)
    text << ", divided by " << divisor;
  text << ")";
  std::string words = text.str();
  if (info.kind == plan::CollectiveKind::ReduceScatter)
    words.erase(1, 1); // "a reduce-scatter"
  return words;
}

} // namespace fsdp

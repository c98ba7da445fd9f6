// Bounds of archives.

#include "ArchiveBounds.h"

#include "plan/Files.h"

#include <algorithm>

using namespace fsdp;

// Records

namespace {
/// The little-endian numbers of a zip file; 0 behind its end.
class ZipNumbers {
public:
  explicit ZipNumbers(std::string_view bytes) : bytes(bytes) {}

  uint64_t at(uint64_t offset, unsigned size) const {
    if (offset > bytes.size() || bytes.size() - offset < size)
      return 0;
    uint64_t value = 0;
    for (unsigned i = size; i-- > 0;)
      value = value << 8 | static_cast<unsigned char>(bytes[offset + i]);
    return value;
  }

private:
  std::string_view bytes;
};
} // namespace

constexpr uint32_t kEntry = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kEntryBytes = 46, kEndBytes = 22, kLocatorBytes = 20,
                   kMaxComment = 0xffff;
// Other exporters compress: what they wrote is opened as far as to say that.
constexpr uint64_t kSlack = uint64_t(16) << 20;

void fsdp::checkRecordSizes(std::string_view zip) {
  const ZipNumbers numbers(zip);
  auto damaged = [] {
    return ArchiveError(E::ArchiveDamaged,
                        "is truncated or damaged (it has no whole list of its "
                        "records); export again");
  };
  // As PyTorch's reader does: the last mark of an end counts.
  if (zip.size() < kEndBytes)
    throw damaged();
  uint64_t end = zip.size() - kEndBytes, tried = 0;
  while (numbers.at(end, 4) != kEnd)
    if (end == 0 || tried++ == kMaxComment)
      throw damaged();
    else
      --end;
  uint64_t count = numbers.at(end + 10, 2), entry = numbers.at(end + 16, 4);
  if (end >= kLocatorBytes && numbers.at(end - kLocatorBytes, 4) == kLocator64)
    if (uint64_t end64 = numbers.at(end - kLocatorBytes + 8, 8);
        numbers.at(end64, 4) == kEnd64) {
      count = numbers.at(end64 + 32, 8);
      entry = numbers.at(end64 + 48, 8);
    }
  uint64_t left = zip.size() + kSlack;
  for (uint64_t i = 0; i < count; ++i) {
    if (entry >= zip.size() || numbers.at(entry, 4) != kEntry)
      throw damaged();
    uint64_t bytes = numbers.at(entry + 24, 4);
    if (bytes > left)
      throw ArchiveError(E::ArchiveDamaged,
                         "has records of more bytes than the file: they are "
                         "compressed, or lie over each other; export again");
    left -= bytes;
    entry += kEntryBytes + numbers.at(entry + 28, 2) +
             numbers.at(entry + 30, 2) + numbers.at(entry + 32, 2);
  }
}

// Depth

// Brackets inside each other, and operators without a bracket or a comma
// between. Code and fsdp.json have fewer than ten.
constexpr uint64_t kMaxDepth = 100;
// An archive has no tensors and no attributes; what its objects nest is less
// than their bytes.
constexpr uint64_t kMaxPickle = 4096;

/// The longest run of words and operators in an expression. Parsers recurse
/// for "not not x", "- -x" and "a if b else c if d else e".
static uint64_t longestRun(const std::string &code) {
  constexpr std::string_view separators = ",()[]{}\n",
                             operators = " \t-+~*/%@<>=!&|^.";
  uint64_t longest = 0, run = 0;
  for (char c : code) {
    if (separators.find(c) != std::string_view::npos)
      run = 0;
    else if (operators.find(c) != std::string_view::npos)
      longest = std::max(longest, ++run);
  }
  return longest;
}

static bool endsWith(const std::string &text, std::string_view end) {
  return text.size() >= end.size() &&
         text.compare(text.size() - end.size(), end.size(), end) == 0;
}

void fsdp::checkDepth(const std::string &name, const std::string &record) {
  auto fail = [&](const std::string &what) {
    throw ArchiveError(E::ArchiveDamaged, "has a record " + name + " that " +
                                              what + "; export again");
  };
  bool isCode = endsWith(name, ".py"), isJson = endsWith(name, ".json");
  if ((isCode || isJson) && nestingOf(record).depth > kMaxDepth)
    fail("nests deeper than " + std::to_string(kMaxDepth));
  // Indentation counts: blocks nest by it.
  if (isCode && longestRun(record) > kMaxDepth)
    fail("has an expression of more than " + std::to_string(kMaxDepth) +
         " operators");
  if (endsWith(name, ".pkl") && record.size() > kMaxPickle)
    fail("has " + std::to_string(record.size()) + " bytes of objects");
}

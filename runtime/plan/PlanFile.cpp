#include "plan/PlanFile.h"
#include "plan/Files.h"
#include "plan/Sha256.h"
#include "plan/check/PlanChecker.h"

#include <flatbuffers/minireflect.h>

using namespace fsdp;
using namespace fsdp::plan;

namespace {

constexpr char magic[] = "FSDPPLAN";
constexpr uint32_t containerVersion = 1;
constexpr size_t versionAt = 8, lengthAt = 12, digestAt = 20, headerBytes = 64;
// A FlatBuffer ends at 2 GiB; the rest bounds the work that a hostile file can
// cause.
constexpr uint64_t maxBytes = (uint64_t(1) << 31) - 1;
constexpr size_t maxDepth = 16;
constexpr size_t maxTables = 50'000'000;

void putLittleEndian(std::string &out, size_t at, uint64_t value, size_t size) {
  for (size_t i = 0; i < size; ++i)
    out[at + i] = static_cast<char>(value >> (8 * i));
}

uint64_t getLittleEndian(const std::string &in, size_t at, size_t size) {
  uint64_t value = 0;
  for (size_t i = 0; i < size; ++i)
    value |= uint64_t(static_cast<unsigned char>(in[at + i])) << (8 * i);
  return value;
}

/// What the FlatBuffers library's verifier lets pass, and unpacking stumbles
/// over.
///
/// Counts what unpacking would allocate. Parts of a FlatBuffer may lie over
/// each other, so a small file can unpack to an enormous plan; no honest one
/// unpacks to more elements than it has bytes. And it looks where wide numbers
/// lie: of a vector the verifier asks only that its length is aligned.
class Unpacking : public flatbuffers::IterationVisitor {
public:
  Unpacking(const uint8_t *buffer, uint64_t limit)
      : buffer(buffer), left(limit) {}

  void String(const flatbuffers::String *s) override { take(s->size()); }
  void Field(size_t, size_t, flatbuffers::ElementaryType type, bool isVector,
             const flatbuffers::TypeTable *, const char *,
             const uint8_t *value) override {
    if (value && !isVector)
      requireAligned(type, value);
  }
  void Element(size_t, flatbuffers::ElementaryType type,
               const flatbuffers::TypeTable *, const uint8_t *value) override {
    take(1);
    requireAligned(type, value);
  }

private:
  void requireAligned(flatbuffers::ElementaryType type, const uint8_t *value) {
    bool isWide = type == flatbuffers::ET_LONG ||
                  type == flatbuffers::ET_ULONG ||
                  type == flatbuffers::ET_DOUBLE;
    if (isWide && (value - buffer) % sizeof(uint64_t) != 0)
      throw PlanError(E::PlanFile,
                      "a number in it lies at no multiple of its size");
  }
  void take(uint64_t count) {
    if (count > left)
      throw PlanError(E::PlanFile, "its parts lie over each other");
    left -= count;
  }
  const uint8_t *buffer;
  uint64_t left;
};

/// The FlatBuffers library lets operations of a kind it does not know pass, and
/// then follows their kind out of its tables.
bool knowsOperations(const Plan &plan) {
  if (plan.programs())
    for (const Program *program : *plan.programs())
      if (program->commands())
        for (const Command *command : *program->commands())
          if (command->operation_type() > Operation::MAX ||
              (command->operation_type() != Operation::NONE) !=
                  (command->operation() != nullptr))
            return false;
  return true;
}

} // namespace

std::string fsdp::plan::serializePlan(const PlanT &plan) {
  flatbuffers::FlatBufferBuilder builder;
  FinishPlanBuffer(builder, Plan::Pack(builder, &plan));
  const char *data = reinterpret_cast<const char *>(builder.GetBufferPointer());
  std::string out(headerBytes, '\0');
  out.replace(0, versionAt, magic);
  putLittleEndian(out, versionAt, containerVersion, 4);
  putLittleEndian(out, lengthAt, builder.GetSize(), 8);
  std::string digest = sha256({data, builder.GetSize()});
  out.replace(digestAt, digest.size(), digest);
  return out.append(data, builder.GetSize());
}

LoadedPlan fsdp::plan::parsePlan(const std::string &bytes,
                                 const std::string &name,
                                 const FindSchema &find) {
  auto fail = [&](const std::string &what, E kind = E::PlanFile) {
    throw PlanError(kind, "'" + name + "' " + what);
  };
  const std::string mend = "; make it again with fsdp-translate --fsdp-to-plan";
  if (bytes.compare(0, versionAt, magic) != 0)
    fail("is not a plan" + mend);
  if (bytes.size() < headerBytes)
    fail("is truncated" + mend);
  uint64_t version = getLittleEndian(bytes, versionAt, 4);
  if (version != containerVersion)
    fail("has container version " + std::to_string(version) +
             ", this program reads " + std::to_string(containerVersion) + mend,
         E::PlanVersion);
  uint64_t length = getLittleEndian(bytes, lengthAt, 8);
  if (length != bytes.size() - headerBytes)
    fail("is truncated or altered: the plan has " +
         std::to_string(bytes.size() - headerBytes) +
         " bytes, its header says " + std::to_string(length) + mend);
  if (length > maxBytes)
    fail("is larger than a plan can be (2 GiB)");
  const char *data = bytes.data() + headerBytes;
  std::string digest = sha256({data, length});
  if (bytes.compare(digestAt, digest.size(), digest) != 0)
    fail("is altered: its digest differs from its contents" + mend);

  // From here on the bytes are what a writer meant, which need not have been
  // this project's.
  const auto *buffer = reinterpret_cast<const uint8_t *>(data);
  flatbuffers::Verifier verifier(buffer, length, maxDepth, maxTables);
  if (!VerifyPlanBuffer(verifier) || !knowsOperations(*GetPlan(buffer)))
    fail("does not hold a valid FlatBuffer" + mend);
  try {
    Unpacking unpacking(buffer, length);
    flatbuffers::IterateFlatBuffer(buffer, PlanTypeTable(), &unpacking);
    LoadedPlan loaded{std::unique_ptr<PlanT>(GetPlan(buffer)->UnPack()),
                      toHex(digest)};
    checkPlan(*loaded.plan);
    if (find)
      checkOperators(*loaded.plan, find);
    return loaded;
  } catch (const PlanError &error) {
    fail(std::string("is not a valid plan: ") + error.what(), error.kind);
  }
  return {};
}

void fsdp::plan::writePlan(const PlanT &plan, const std::string &path) {
  try {
    writeFileAtomically(serializePlan(plan), path);
  } catch (const Error &error) {
    throw PlanError(error.kind, error.what());
  }
}

LoadedPlan fsdp::plan::readPlan(const std::string &path,
                                const FindSchema &find) {
  std::string bytes;
  try {
    bytes = readRegularFile(path, headerBytes + maxBytes);
  } catch (const Error &error) {
    throw PlanError(error.kind, error.what());
  }
  return parsePlan(bytes, path, find);
}

// The copies between a bucket and its members.

#include "Lower/MemberCopies.h"

#include "Remarks.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace fsdp;

CopyPieces fsdp::getPacking(ValueRange inputs, ArrayAttr members, Value whole,
                            const ProgramValues &values,
                            const Aliases &aliases) {
  Value bucket = values.lookup(whole);
  CopyPieces pieces;
  int64_t bytes = getPlace(whole).getBytes(), end = 0;
  int64_t blocks = 1;
  if (!members.empty())
    blocks = cast<MemberAttr>(members[0]).getBlocks();
  int64_t piece = bytes / blocks;
  ShardsAttr shards;
  // A collective reads the gaps too; they must not be what lay there before.
  auto zero = [&](int64_t begin, int64_t past) {
    pieces.add(Value(), bucket, past - begin, blocks, /*fromOffset=*/0, begin,
               /*fromStride=*/0, piece, shards);
  };
  for (auto [input, member] :
       llvm::zip_equal(inputs, members.getAsRange<MemberAttr>())) {
    if (member.getShards() != shards) { // other ranks fill it anew
      if (shards)
        zero(end, piece);
      shards = member.getShards();
      end = 0;
    }
    zero(end, member.getOffset());
    end = member.getOffset() + member.getBytes();
    auto part = aliases.getPart(aliases.getRoot(input));
    bool inPlace = part && part->whole == whole;
    if (!inPlace)
      pieces.add(values.getBytes(input), bucket, member.getBytes(), blocks,
                 /*fromOffset=*/0, member.getOffset(), member.getBytes(), piece,
                 shards);
  }
  zero(end, piece);
  return pieces;
}

/// Where members come from: modules, or states by their names. Nothing where
/// `module`, which is a figure, says it.
static std::string listSources(ArrayRef<StringRef> sources, StringRef module) {
  constexpr size_t most = 8;
  if (sources.empty() || (sources.size() == 1 && sources.front() == module))
    return "";
  std::string text = "; from " + llvm::join(sources.take_front(most), ", ");
  if (sources.size() > most)
    text += " and " + std::to_string(sources.size() - most) + " more";
  return text;
}

void fsdp::remarkCopies(PackOp pack, const Aliases &aliases) {
  struct Copied {
    int64_t members = 0, bytes = 0;
    llvm::SmallSetVector<StringRef, 4> sources;
  };
  llvm::MapVector<StringRef, Copied> copied; // by the reason
  for (auto [input, member] : llvm::zip_equal(
           pack.getInputs(), pack.getMembers().getAsRange<MemberAttr>()))
    if (auto reason = aliases.getReasonForCopy(input, member);
        reason && member.getBytes()) {
      ++copied[*reason].members;
      copied[*reason].bytes += member.getBytes() * member.getBlocks();
      if (StringRef path = getModulePath(input.getLoc()); !path.empty())
        copied[*reason].sources.insert(path);
    }
  auto program = pack->getParentOfType<func::FuncOp>();
  StringRef module = getModulePath(pack.getLoc());
  for (const auto &[reason, sum] : copied)
    remarkMissed(R::CopiedMembers, pack.getLoc(), program.getSymName())
        << ("copied into a bucket, since " + reason).str() +
               listSources(sum.sources.getArrayRef(), module)
        << metrics::Module(module)
        << metrics::Line(getSourceLine(pack.getLoc()))
        << metrics::Members(sum.members) << metrics::Bytes(sum.bytes);
}

CopyPieces fsdp::getUnpacking(UnpackOp unpack, const ProgramValues &values,
                              const Aliases &aliases) {
  Value bucket = values.lookup(unpack.getBucket());
  int64_t bytes = getPlace(unpack.getBucket()).getBytes();
  CopyPieces pieces;
  for (auto [output, member] : llvm::zip_equal(
           unpack.getOutputs(), unpack.getMembers().getAsRange<MemberAttr>())) {
    int64_t blocks = member.getBlocks();
    if (!aliases.getPart(output))
      pieces.add(bucket, values.lookup(output), member.getBytes(), blocks,
                 member.getOffset(), /*toOffset=*/0, bytes / blocks,
                 member.getBytes(), member.getShards());
  }
  return pieces;
}

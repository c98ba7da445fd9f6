// Which tensors of one unit are gathered or reduced as one bucket.

#include "BucketSizes.h"
#include "PassOptions.h"

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/Mesh.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

FailureOr<BucketSizes> BucketSizes::get(ModuleOp module, StringRef cap,
                                        StringRef cluster, R remark) {
  BucketSizes sizes;
  sizes.remark = remark;
  Mesh mesh(module);
  int64_t shards = mesh.getNumShards();
  sizes.ranks = shards > 1 ? shards : mesh.getNumRanks();
  std::optional<int64_t> bytes;
  if (failed(readOptions(module, [&] { bytes = readBucketCap(cap); })))
    return failure();
  if (cap != "auto") {
    sizes.kind = bytes ? Kind::Cap : Kind::PerUnit;
    sizes.capBytes = bytes.value_or(0);
    return sizes;
  }
  if (failed(readOptions(
          module, [&] { sizes.cluster = readCluster(cluster, module); })))
    return failure();
  sizes.kind = Kind::Auto;
  sizes.efficientBytes = static_cast<int64_t>(cost::efficientBytes(
      plan::CollectiveKind::AllGather, sizes.ranks, sizes.cluster));
  return sizes;
}

BucketSizes::Compute BucketSizes::getCompute(Block &block) const {
  Compute compute;
  if (kind != Kind::Auto)
    return compute;
  OpCost cost(block.getParentOp()->getParentOfType<ModuleOp>(), cluster);
  llvm::DenseSet<Operation *> sums; // and what depends on them
  for (Operation &op : block) {
    compute.before[&op] = compute.all;
    auto collective = dyn_cast<CollectiveOpInterface>(op);
    if ((collective && collective.getKind() == CollectiveKind::ReduceScatter) ||
        llvm::any_of(op.getOperands(), [&](Value operand) {
          return sums.contains(operand.getDefiningOp());
        }))
      sums.insert(&op);
    else if (isa<aten::CallOp>(op))
      compute.all += cost.getSeconds(&op);
  }
  return compute;
}

/// The members of one unit in order of need, and where they are cut.
struct fsdp::UnitCuts {
  struct Member {
    size_t index;    // in the caller's list
    size_t position; // among the members of all units
    const BucketMember *member;
  };
  SmallVector<Member> members;
  SmallVector<bool> cutBefore;

  int64_t getBytes(size_t begin, size_t end) const {
    int64_t sum = 0;
    for (size_t i = begin; i < end; ++i)
      sum += members[i].member->bytes;
    return sum;
  }
  double getHiddenSeconds(size_t begin, size_t end) const {
    double least = members[begin].member->hiddenSeconds;
    for (size_t i = begin; i < end; ++i)
      least = std::min(least, members[i].member->hiddenSeconds);
    return least;
  }
  size_t getEnd(size_t begin) const {
    size_t end = begin + 1;
    while (end < members.size() && !cutBefore[end])
      ++end;
    return end;
  }
  /// Cuts a range in front of members for which `wanted` holds, where neither
  /// side is then smaller than `least` bytes.
  void cut(size_t begin, size_t end, int64_t least,
           function_ref<bool(size_t)> wanted) {
    for (size_t i = begin + 1; i < end; ++i)
      if (wanted(i) && getBytes(begin, i) >= least &&
          getBytes(i, end) >= least) {
        cutBefore[i] = true;
        begin = i;
      }
  }
};

void BucketSizes::cutByCost(UnitCuts &unit) const {
  size_t count = unit.members.size();
  unit.cut(0, count, efficientBytes, [&](size_t i) {
    return unit.members[i].position > unit.members[i - 1].position + 1;
  });
  for (size_t begin = 0, end; begin < count; begin = end) {
    end = unit.getEnd(begin);
    double seconds =
        cost::collectiveSeconds(plan::CollectiveKind::AllGather,
                                unit.getBytes(begin, end), ranks, cluster);
    if (seconds > unit.getHiddenSeconds(begin, end))
      unit.cut(begin, end, efficientBytes, [](size_t) { return true; });
  }
}

void BucketSizes::cutByCap(UnitCuts &unit) const {
  size_t begin = 0;
  for (size_t i = 1; i < unit.members.size(); ++i)
    if (unit.getBytes(begin, i + 1) > capBytes) {
      unit.cutBefore[i] = true;
      begin = i;
    }
}

void BucketSizes::explain(const UnitCuts &unit, StringRef what) const {
  size_t count = unit.members.size();
  int64_t bytes = unit.getBytes(0, count);
  auto buckets = 1 + llvm::count(unit.cutBefore, true);
  const BucketMember &first = *unit.members.front().member;
  auto said = remarkDecision(buckets > 1, remark, first.at->getLoc());
  said << what.str() << metrics::Unit(first.unit.getValue())
       << metrics::Bytes(bytes) << metrics::Buckets(buckets);
  if (kind == Kind::Cap)
    said << metrics::MostBytes(capBytes);
  else
    said << metrics::Us(cost::collectiveSeconds(plan::CollectiveKind::AllGather,
                                                bytes, ranks, cluster))
         << metrics::HiddenUs(unit.getHiddenSeconds(0, count))
         << metrics::EfficientBytes(efficientBytes);
}

SmallVector<unsigned> BucketSizes::assign(ArrayRef<BucketMember> members,
                                          StringRef what) const {
  SmallVector<unsigned> buckets(members.size(), 0);
  if (kind == Kind::PerUnit)
    return buckets;
  auto order = llvm::to_vector(llvm::seq<size_t>(0, members.size()));
  llvm::stable_sort(order, [&](size_t a, size_t b) {
    return members[a].at->isBeforeInBlock(members[b].at);
  });
  llvm::MapVector<Attribute, UnitCuts> units;
  for (auto [position, index] : llvm::enumerate(order))
    units[members[index].unit].members.push_back(
        {index, position, &members[index]});
  for (auto &[name, unit] : units) {
    unit.cutBefore.assign(unit.members.size(), false);
    if (kind == Kind::Cap)
      cutByCap(unit);
    else
      cutByCost(unit);
    explain(unit, what);
    unsigned bucket = 0;
    for (auto [member, isCut] : llvm::zip_equal(unit.members, unit.cutBefore))
      buckets[member.index] = bucket += isCut;
  }
  return buckets;
}

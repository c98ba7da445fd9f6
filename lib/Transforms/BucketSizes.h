// Which tensors of one unit are gathered or reduced as one bucket.

#ifndef FSDP_LIB_TRANSFORMS_BUCKETSIZES_H
#define FSDP_LIB_TRANSFORMS_BUCKETSIZES_H

#include "Remarks.h"

#include "fsdp/Analysis/OpCost.h"
#include "mlir/IR/Block.h"

namespace fsdp {

/// One tensor that a unit gathers or reduces.
struct BucketMember {
  mlir::StringAttr unit;
  int64_t bytes = 0; // whole
  /// The op that needs it gathered, or behind which it can be reduced.
  mlir::Operation *at = nullptr;
  /// Compute beside which its collective can run, in seconds.
  double hiddenSeconds = 0;
};

struct UnitCuts;

/// The rule by which buckets are cut. A unit is one bucket, unless
///
/// - a number of MiB bounds what a bucket may hold (one member at least);
/// - or, with `auto`, another unit is needed between two of its members: what
///   the root needs first is then not gathered with what it needs last;
/// - or, with `auto`, its collective takes longer than the compute beside which
///   it can run, as that of the first unit of a step: then only its first
///   piece is exposed.
///
/// `auto` makes no bucket so small that the fixed cost of a collective is more
/// than a tenth of its time.
class BucketSizes {
public:
  /// `cap` is none, auto or a number of MiB; fails with an error otherwise, and
  /// where there is no such cluster. `remark` is what says it.
  static mlir::FailureOr<BucketSizes> get(mlir::ModuleOp module,
                                          llvm::StringRef cap,
                                          llvm::StringRef cluster, R remark);

  /// Predicted seconds of compute in front of each op of a block, and of all.
  /// What depends on a reduced gradient does not count: it waits for it.
  struct Compute {
    llvm::DenseMap<mlir::Operation *, double> before;
    double all = 0;
  };
  Compute getCompute(mlir::Block &block) const;

  /// The bucket of each member, numbered within its unit in order of need.
  /// Members stand in one block. A remark says why each unit is cut or whole;
  /// `what` it moves, as in "gradients".
  llvm::SmallVector<unsigned> assign(llvm::ArrayRef<BucketMember> members,
                                     llvm::StringRef what) const;

private:
  enum class Kind { PerUnit, Cap, Auto };

  void cutByCost(UnitCuts &unit) const;
  void cutByCap(UnitCuts &unit) const;
  void explain(const UnitCuts &unit, llvm::StringRef what) const;

  Kind kind = Kind::PerUnit;
  int64_t capBytes = 0;       // Cap
  int64_t efficientBytes = 0; // Auto
  cost::Cluster cluster;
  unsigned ranks = 1;
  R remark = R::BucketCut;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_BUCKETSIZES_H

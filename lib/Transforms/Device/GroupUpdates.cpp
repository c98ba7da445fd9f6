// fsdp-group-updates.

#include "fsdp/Dialect/Aten/Aten.h"
#include "fsdp/Dialect/FSDP/DiscardableAttributes.h"
#include "fsdp/Dialect/FSDP/FSDP.h"
#include "fsdp/Transforms/Passes.h"
#include "fsdp/Transforms/Programs.h"

namespace fsdp {
#define GEN_PASS_DEF_GROUPUPDATES
#include "fsdp/Transforms/Passes.h.inc"
} // namespace fsdp

using namespace mlir;
using namespace fsdp;

namespace {

/// What a group's gradients take at most: with so many elements a launch fills
/// a GPU several times over, and all of them live at once.
constexpr uint64_t kGroupBytes = uint64_t(64) << 20;

uint64_t getBytes(UpdateOp update) {
  auto type = cast<RankedTensorType>(update.getGradient().getType());
  return type.getNumElements() * type.getElementTypeBitWidth() / 8;
}

/// Whether one launch may update its parameter and others.
bool canShareLaunch(UpdateOp update) {
  return !update.getScale() && !update.getStaged() && update.getGiven().empty();
}

/// Whether it makes the gradient of an update and nothing else.
bool isCastForUpdate(Operation &op) {
  auto call = dyn_cast<aten::CallOp>(op);
  return call && call.getCallee() == "_to_copy" && call->hasOneUse() &&
         isa<UpdateOp>(*call->user_begin());
}

/// Whether the gradient is in memory of its own: no update of another
/// parameter changes it.
bool isOwn(UpdateOp update) {
  auto call = update.getGradient().getDefiningOp<aten::CallOp>();
  return call && !call.isView();
}

/// Puts updates behind the casts between them, those of a rule together.
class Group {
public:
  void add(UpdateOp update) {
    uint64_t more = getBytes(update);
    if (bytes + more > kGroupBytes)
      close();
    bytes += more;
    updates.push_back(update);
  }

  void close() {
    if (updates.size() > 1) {
      if (llvm::all_of(updates, isOwn))
        llvm::stable_sort(updates, [](UpdateOp a, UpdateOp b) {
          return a.getRule() < b.getRule();
        });
      Operation *end = last->getNextNode();
      for (UpdateOp update : updates)
        update->moveBefore(end);
    }
    updates.clear();
    bytes = 0;
  }

  /// The last one in the program's order.
  UpdateOp last;

private:
  SmallVector<UpdateOp> updates;
  uint64_t bytes = 0;
};

class GroupUpdates : public fsdp::impl::GroupUpdatesBase<GroupUpdates> {
  void runOnModule() override {
    ModuleOp module = getOperation();
    if (!isForGpus(module))
      return;
    for (auto function : module.getOps<func::FuncOp>()) {
      if (function.isDeclaration())
        continue;
      Group group;
      for (Operation &op :
           llvm::make_early_inc_range(function.getBody().front())) {
        auto update = dyn_cast<UpdateOp>(op);
        if (update && canShareLaunch(update)) {
          group.add(update);
          group.last = update;
        } else if (!isCastForUpdate(op)) {
          group.close();
        }
      }
    }
  }
};

} // namespace

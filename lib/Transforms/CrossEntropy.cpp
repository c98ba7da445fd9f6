// Cross-entropy that was captured as log-softmax and negative log-likelihood.

#include "CrossEntropy.h"

#include "KernelCalls.h"
#include "Remarks.h"

#include "fsdp/Transforms/Programs.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace fsdp;

namespace {

/// The only reader of a value, where that is a call of this name; or null.
aten::CallOp getOnlyReader(Value value, StringRef callee) {
  auto call = value.hasOneUse() ? dyn_cast<aten::CallOp>(*value.user_begin())
                                : aten::CallOp();
  return call && call.getCallee() == callee ? call : aten::CallOp();
}

RankedTensorType getType(Value value) {
  return cast<RankedTensorType>(value.getType());
}

int64_t getInteger(aten::CallOp call, StringRef name) {
  return cast<IntegerAttr>(call.getArg(name)).getInt();
}

bool isNarrow(Type element) { return element.isF16() || element.isBF16(); }

/// All readers of a value, and of the same under other names; false where one
/// is no call.
bool collectReaders(Value value, SmallVectorImpl<aten::CallOp> &readers) {
  for (Operation *reader : value.getUsers()) {
    auto call = dyn_cast<aten::CallOp>(reader);
    if (!call)
      return false;
    if (call.getCallee() != "detach")
      readers.push_back(call);
    else if (!collectReaders(call->getResult(0), readers))
      return false;
  }
  return true;
}

} // namespace

/// The readers of the logarithms, one of each kind.
bool CrossEntropy::readReaders() {
  SmallVector<aten::CallOp> readers;
  if (!collectReaders(softmax->getResult(0), readers))
    return false;
  for (aten::CallOp reader : readers) {
    aten::CallOp *kind =
        llvm::StringSwitch<aten::CallOp *>(reader.getCallee())
            .Case("nll_loss_forward", &likelihood)
            .Case("nll_loss_backward", &likelihoodBackward)
            .Case("_log_softmax_backward_data", &softmaxBackward)
            .Default(nullptr);
    if (!kind || *kind)
      return false;
    *kind = reader;
  }
  return likelihood && bool(likelihoodBackward) == bool(softmaxBackward);
}

/// That forward and backward are of the same classes, each of which counts
/// once.
bool CrossEntropy::readLikelihood() {
  constexpr int64_t mean = 1, sum = 2;
  int64_t reduction = getInteger(likelihood, "reduction");
  Value target = likelihood->getOperand(1), total = likelihood->getResult(1);
  // With weights there is one operand more.
  if (likelihood->getNumOperands() != 2 || getType(target).getRank() != 1 ||
      getType(target).getEncoding() || (reduction != mean && reduction != sum))
    return false;
  if (!likelihoodBackward)
    return total.use_empty();
  return likelihoodBackward->getNumOperands() == 4 &&
         likelihoodBackward->getOperand(2) == target &&
         likelihoodBackward->getOperand(3) == total && total.hasOneUse() &&
         getInteger(likelihoodBackward, "reduction") == reduction &&
         getInteger(likelihoodBackward, "ignore_index") ==
             getInteger(likelihood, "ignore_index") &&
         likelihoodBackward->getResult(0).hasOneUse() &&
         softmaxBackward->getOperand(0) == likelihoodBackward->getResult(0) &&
         softmaxBackward->getResult(0).getType() ==
             softmax->getOperand(0).getType();
}

/// The logits and their gradient: in 16 bits, where all that there is between
/// is a cast and perhaps a view.
void CrossEntropy::readCasts() {
  logits = softmax->getOperand(0);
  gradient = softmaxBackward ? softmaxBackward->getResult(0) : Value();
  aten::CallOp view = getCall(logits, "view");
  Value wide = view && view->hasOneUse() ? view->getOperand(0) : logits;
  aten::CallOp cast = getCall(wide, "_to_copy");
  if (!cast || !cast->hasOneUse() || getType(wide).getEncoding())
    return;
  Value narrow = cast->getOperand(0);
  if (!isNarrow(getElementTypeOrSelf(narrow)) || getType(narrow).getEncoding())
    return;
  if (softmaxBackward) {
    Value back = gradient;
    if (wide != logits) {
      aten::CallOp turned = getOnlyReader(back, "view");
      if (!turned)
        return;
      back = turned->getResult(0);
    }
    aten::CallOp narrowed = getOnlyReader(back, "_to_copy");
    if (!narrowed || narrowed->getResult(0).getType() != narrow.getType())
      return;
    gradient = narrowed->getResult(0);
  }
  logits = narrow;
}

std::optional<CrossEntropy> CrossEntropy::match(aten::CallOp softmax) {
  if (softmax.getCallee() != "_log_softmax")
    return std::nullopt;
  CrossEntropy found;
  found.softmax = softmax;
  RankedTensorType type = getType(softmax->getOperand(0));
  int64_t dim = getInteger(softmax, "dim");
  if (type.getRank() != 2 || (dim != 1 && dim != -1) || type.getEncoding() ||
      !type.getElementType().isF32() || type.getDimSize(1) == 0 ||
      softmax->getResult(0).getType() != type || !found.readReaders() ||
      !found.readLikelihood())
    return std::nullopt;
  found.readCasts();
  return found;
}

Type CrossEntropy::getElementType() const {
  return getElementTypeOrSelf(logits);
}

void CrossEntropy::fuse() {
  KernelCalls calls(likelihood);
  ArrayRef<int64_t> shape = getType(softmax->getOperand(0)).getShape();
  auto reshape = [](KernelCalls &calls, Value value,
                    ArrayRef<int64_t> shape) -> Value {
    if (getType(value).getShape() == shape)
      return value;
    Type type = RankedTensorType::get(shape, getElementTypeOrSelf(value));
    return calls.create("view", value, calls.numbers("size", shape), type)
        ->getResult(0);
  };
  Value rows = reshape(calls, logits, shape);
  Value target = likelihood->getOperand(1);
  SmallVector<NamedAttribute> args = {
      calls.number("reduction", getInteger(likelihood, "reduction")),
      calls.number("ignore_index", getInteger(likelihood, "ignore_index"))};
  Type number = RankedTensorType::get({}, calls.builder.getF32Type());
  Type sums = RankedTensorType::get(shape[0], calls.builder.getF32Type());
  aten::CallOp forward = calls.create(
      "fsdp_mlir::cross_entropy", {rows, target}, args, {number, number, sums});
  likelihood->getResult(0).replaceAllUsesWith(forward->getResult(0));
  if (!softmaxBackward)
    return;

  KernelCalls behind(softmaxBackward);
  Value gradInput =
      behind
          .create("fsdp_mlir::cross_entropy_backward",
                  {likelihoodBackward->getOperand(0), rows, target,
                   forward->getResult(1), forward->getResult(2)},
                  args, rows.getType())
          ->getResult(0);
  gradient.replaceAllUsesWith(
      reshape(behind, gradInput, getType(gradient).getShape()));
}

int64_t CrossEntropy::getNumClasses() const {
  return getType(aten::CallOp(softmax)->getOperand(0)).getDimSize(1);
}

void CrossEntropy::fuseAll(func::FuncOp program, R kind, int64_t leastClasses) {
  SmallVector<aten::CallOp> calls;
  program.walk([&](aten::CallOp call) { calls.push_back(call); });
  bool fused = false;
  for (aten::CallOp softmax : calls)
    if (auto entropy = match(softmax);
        entropy && entropy->getNumClasses() >= leastClasses) {
      remarkPassed(kind, softmax.getLoc(), program.getSymName())
          << "one kernel, which keeps no probability"
          << metrics::Logits(
                 llvm::formatv("{0}", entropy->getElementType()).str());
      entropy->fuse();
      fused = true;
    }
  if (fused)
    eraseDeadOps(program);
}

// Cross-entropy that was captured as log-softmax and negative log-likelihood.

#ifndef FSDP_LIB_TRANSFORMS_CROSSENTROPY_H
#define FSDP_LIB_TRANSFORMS_CROSSENTROPY_H

#include "Remarks.h"

#include "fsdp/Dialect/Aten/Aten.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace fsdp {

/// `torch.nn.functional.cross_entropy` of classes, with its backward: four
/// passes over float32 logits, which are widened in front of them and narrowed
/// behind. Without weights or smoothing, as a mean or a sum.
class CrossEntropy {
public:
  /// Reads one around its log-softmax; nothing where anything else reads the
  /// logarithms, or anything is not as that function has it.
  static std::optional<CrossEntropy> match(aten::CallOp softmax);

  /// Fuses each one of a program that has so many classes, with a remark each,
  /// and erases what nobody reads any more.
  static void fuseAll(mlir::func::FuncOp program, R kind,
                      int64_t leastClasses = 1);

  int64_t getNumClasses() const;

  /// The type of the logits that are read.
  mlir::Type getElementType() const;

  /// Puts `fsdp_mlir::cross_entropy` and its backward in its place. What it was
  /// stays behind, read by none but each other.
  void fuse();

private:
  bool readReaders();
  bool readLikelihood();
  void readCasts();

  aten::CallOp softmax, likelihood;
  // Null in evaluations.
  aten::CallOp likelihoodBackward, softmaxBackward;
  /// The logits before they were widened, if they were; and their gradient,
  /// null in evaluations. Either may have the shape of a model's output.
  mlir::Value logits, gradient;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_CROSSENTROPY_H

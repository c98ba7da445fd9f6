// Attention that was captured as matrix products.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_MATHATTENTION_H
#define FSDP_LIB_TRANSFORMS_DEVICE_MATHATTENTION_H

#include "Device/AttentionKernels.h"

namespace fsdp {

/// PyTorch's `math` form of `scaled_dot_product_attention`, with its backward:
/// what a CPU captures where something is dropped, or where a mask has a
/// gradient.
class MathAttention {
public:
  /// Whether a call is a softmax of that form, which nothing else calls.
  static bool isSoftmax(aten::CallOp call);

  /// Reads one around its softmax; nothing where anything is not as that form
  /// has it.
  static std::optional<MathAttention> match(aten::CallOp softmax);

  /// What it computes; its calls are the softmax's until it is raised.
  const Attention &getAttention() const { return attention; }

  /// Calls of the CPU's kernel in its place. The products stay behind, read by
  /// none but each other.
  Attention raise();

private:
  bool readScores(mlir::Value scores);
  bool readWeights(mlir::Value weights, mlir::Value *folded);
  bool readBackward(mlir::Value folded, mlir::Value foldedValue);

  Attention attention;
  mlir::Value scaledQuery, scaledKey; // as they are multiplied
  mlir::Value result;                 // and what stands in its place later
  mlir::Value gradient;               // of the result
  aten::CallOp firstOfBackward;       // which reads that
  mlir::Value queryGradient, keyGradient, valueGradient;
};

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_MATHATTENTION_H

// PyTorch's attention kernels on GPUs.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_ATTENTIONKERNELS_H
#define FSDP_LIB_TRANSFORMS_DEVICE_ATTENTIONKERNELS_H

#include "fsdp/Dialect/Aten/Aten.h"

#include <string>

namespace fsdp {

/// An attention as calls of the CPU's kernel, which is how it is captured.
struct Attention {
  /// Reads a call (AttentionForms.cpp); nothing where it is not the CPU's
  /// kernel. Its backward is the calls that read its logsumexp.
  static std::optional<Attention> match(aten::CallOp call);

  mlir::RankedTensorType getQueryType() const {
    return llvm::cast<mlir::RankedTensorType>(query.getType());
  }
  mlir::RankedTensorType getKeyType() const {
    return llvm::cast<mlir::RankedTensorType>(key.getType());
  }

  aten::CallOp forward;
  llvm::SmallVector<aten::CallOp, 1> backward; // none in eval
  mlir::Value query, key, value; // [batch, heads, length, head size]
  mlir::Value mask;              // added to the scores; null: none
  bool isCausal = false;
  mlir::Attribute scale; // of the scores; null: 1 / sqrt(head size)

  // Of one that was captured as matrix products (MathAttention.h).
  double dropout = 0;        // the share of weights that is dropped
  mlir::Attribute generator; // that says which
  mlir::Value maskGradient;  // of the scores, to be replaced; null: none
};

/// One way to compute attention on a GPU.
struct AttentionKernel {
  llvm::StringRef name;
  /// Why it does not compute an attention, as PyTorch's rules have it (its
  /// sdp_utils); empty where it does.
  std::string (*misfit)(const Attention &);
  /// Puts its calls in the place of the CPU's.
  void (*replace)(Attention &);
};

/// Flash, efficient and cuDNN.
llvm::ArrayRef<AttentionKernel> getAttentionKernels();

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_ATTENTIONKERNELS_H

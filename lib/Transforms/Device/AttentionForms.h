// Attention of the same value on operands that more kernels take.

#ifndef FSDP_LIB_TRANSFORMS_DEVICE_ATTENTIONFORMS_H
#define FSDP_LIB_TRANSFORMS_DEVICE_ATTENTIONFORMS_H

#include "Device/AttentionKernels.h"

namespace fsdp {

/// The tensor that a call gives an argument of its schema, or null.
mlir::Value getTensor(aten::CallOp call, llvm::StringRef name);

/// Makes the head size a multiple of this: zeros behind each head change no
/// score, and the scale stays that of the true size.
void padHeads(Attention &attention, int64_t multiple);

/// Makes as many heads of keys and values as there are of queries.
void repeatHeads(Attention &attention);

} // namespace fsdp

#endif // FSDP_LIB_TRANSFORMS_DEVICE_ATTENTIONFORMS_H

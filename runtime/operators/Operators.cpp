#include "operators/Operators.h"

#include <torch/library.h>

namespace fsdp {

void registerOperators() {
  // Not when the program starts: a static library's initialisers are dropped.
  static const bool registered = [] {
    static torch::Library library(torch::Library::DEF, "fsdp_mlir",
                                  std::nullopt, __FILE__, __LINE__);
#define FSDP_OPERATOR(schema) library.def(schema);
#include "operators/Operators.def"
#undef FSDP_OPERATOR
    library.impl("power_sum",
                 torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(powerSum)));
    library.impl("power_sum", torch::dispatch(c10::DispatchKey::CUDA,
                                              TORCH_FN(powerSumOfNorms)));
    library.impl("flash_attention", torch::dispatch(c10::DispatchKey::CUDA,
                                                    TORCH_FN(flashAttention)));
    library.impl("flash_attention_backward",
                 torch::dispatch(c10::DispatchKey::CUDA,
                                 TORCH_FN(flashAttentionBackward)));
    return true;
  }();
  static_cast<void>(registered);
}

} // namespace fsdp

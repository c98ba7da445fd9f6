#include "operators/Operators.h"

#include <torch/library.h>

namespace fsdp {

void registerOperators() {
  // Not when the program starts: a static library's initialisers are dropped.
  static const bool registered = [] {
    defineOperators();
    static torch::Library library(torch::Library::IMPL, "fsdp_mlir",
                                  std::nullopt, __FILE__, __LINE__);
    library.impl("power_sum",
                 torch::dispatch(c10::DispatchKey::CPU, TORCH_FN(powerSum)));
    library.impl("power_sum", torch::dispatch(c10::DispatchKey::CUDA,
                                              TORCH_FN(powerSumOfNorms)));
    auto onCpu = [&](const char *name, auto kernel) {
      library.impl(name, torch::dispatch(c10::DispatchKey::CPU, kernel));
    };
    onCpu("mm.onednn", TORCH_FN(mmOneDnn));
    onCpu("mm.onednn_linear", TORCH_FN(mmOneDnnLinear));
    onCpu("addmm.onednn", TORCH_FN(addmmOneDnn));
    onCpu("addmm.onednn_linear", TORCH_FN(addmmOneDnnLinear));
    onCpu("bmm.onednn", TORCH_FN(bmmOneDnn));
    onCpu("mm.onednn_primitive", TORCH_FN(mmOneDnnPrimitive));
    onCpu("addmm.onednn_primitive", TORCH_FN(addmmOneDnnPrimitive));
    onCpu("bmm.onednn_primitive", TORCH_FN(bmmOneDnnPrimitive));
    onCpu("attention.onednn_primitive", TORCH_FN(attentionOneDnnPrimitive));
    onCpu("attention_backward.onednn_primitive",
          TORCH_FN(attentionBackwardOneDnnPrimitive));
    onCpu("mm.float32", TORCH_FN(mmWidened));
    onCpu("addmm.float32", TORCH_FN(addmmWidened));
    onCpu("bmm.float32", TORCH_FN(bmmWidened));
    onCpu("convolution.float32", TORCH_FN(convolutionWidened));
    onCpu("convolution_backward.float32", TORCH_FN(convolutionBackwardWidened));
    onCpu("attention.float32", TORCH_FN(attentionWidened));
    onCpu("attention_backward.float32", TORCH_FN(attentionBackwardWidened));
    onCpu("cross_entropy", TORCH_FN(crossEntropy));
    onCpu("cross_entropy_backward", TORCH_FN(crossEntropyBackward));
    onCpu("batched_nms", TORCH_FN(batchedNms));
    onCpu("linear_sum_assignment", TORCH_FN(linearSumAssignment));
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

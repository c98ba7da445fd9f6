// Loaded by kernels.py: the runtime's own operators, for PyTorch's dispatcher.
#include "operators/Operators.h"

__attribute__((constructor)) static void load() { fsdp::registerOperators(); }

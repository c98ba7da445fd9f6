// The oneDNN that pip installs beside PyTorch (requirements.txt). PyTorch holds
// another copy, but exports nothing of it.
#ifndef FSDP_RUNTIME_OPERATORS_ONEDNNLIBRARY_H
#define FSDP_RUNTIME_OPERATORS_ONEDNNLIBRARY_H

#include <oneapi/dnnl/dnnl.h>

namespace fsdp {

struct OneDnnFunctions {
#define ONEDNN_FUNCTION(FUNCTION, MEMBER) decltype(&FUNCTION) MEMBER;
#include "operators/OneDnnFunctions.def"
#undef ONEDNN_FUNCTION
};

/// Loaded when first asked for, since that takes milliseconds. Throws
/// c10::Error where there is none, or one of another version: other versions
/// have other bits.
const OneDnnFunctions &oneDnn();

/// Throws c10::Error, saying what was being made, unless `status` is success.
void checkOneDnn(dnnl_status_t status, const char *what);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_ONEDNNLIBRARY_H

#ifndef FSDP_RUNTIME_OPERATORS_DISPATCHERSCHEMAS_H
#define FSDP_RUNTIME_OPERATORS_DISPATCHERSCHEMAS_H

#include "plan/OperatorSchema.h"

#include <optional>

namespace fsdp {

/// What this process's PyTorch says of "aten::add" and "Tensor", or of an
/// operator of Operators.def; nothing where it has none.
std::optional<plan::OperatorSchema>
findDispatcherSchema(const std::string &name, const std::string &overload);

} // namespace fsdp

#endif // FSDP_RUNTIME_OPERATORS_DISPATCHERSCHEMAS_H

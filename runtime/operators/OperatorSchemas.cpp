// The schemas of the runtime's own operators: all that who reads an archive
// needs.

#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace fsdp {

void defineOperators() {
  static const bool defined = [] {
    // Not DEF, of which a process may have one: Python may be there first.
    static torch::Library library(torch::Library::FRAGMENT, "fsdp_mlir",
                                  std::nullopt, __FILE__, __LINE__);
    auto define = [&](const char *text) {
      c10::FunctionSchema schema = torch::schema(text);
      c10::OperatorName name("fsdp_mlir::" + schema.name(),
                             schema.overload_name());
      if (!c10::Dispatcher::singleton().findSchema(name))
        library.def(std::move(schema));
    };
#define FSDP_OPERATOR(schema) define(schema);
#define FSDP_CPU_OPERATOR(schema) define(schema);
#include "operators/Operators.def"
#undef FSDP_OPERATOR
#undef FSDP_CPU_OPERATOR
    return true;
  }();
  static_cast<void>(defined);
}

} // namespace fsdp

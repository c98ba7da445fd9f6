// The schemas of the runtime's own operators: all that who reads an archive
// needs.

#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace fsdp {

/// Not DEF, of which a process may have one: Python may be there first.
static torch::Library newLibrary() {
  return torch::Library(torch::Library::FRAGMENT, "fsdp_mlir", std::nullopt,
                        __FILE__, __LINE__);
}

static void define(torch::Library &library, const char *text) {
  c10::FunctionSchema schema = torch::schema(text);
  c10::OperatorName name("fsdp_mlir::" + schema.name(), schema.overload_name());
  if (!c10::Dispatcher::singleton().findSchema(name))
    library.def(std::move(schema));
}

void defineOperators() {
  static const bool defined = [] {
    static torch::Library library = newLibrary();
#define FSDP_OPERATOR(schema) define(library, schema);
#define FSDP_CPU_OPERATOR(schema) define(library, schema);
#define FSDP_CAPTURED_OPERATOR(schema)
#include "operators/Operators.def"
#undef FSDP_OPERATOR
#undef FSDP_CPU_OPERATOR
#undef FSDP_CAPTURED_OPERATOR
    return true;
  }();
  static_cast<void>(defined);
}

void defineCapturedOperators() {
  static const bool defined = [] {
    static torch::Library library = newLibrary();
#define FSDP_OPERATOR(schema)
#define FSDP_CPU_OPERATOR(schema)
#define FSDP_CAPTURED_OPERATOR(schema) define(library, schema);
#include "operators/Operators.def"
#undef FSDP_OPERATOR
#undef FSDP_CPU_OPERATOR
#undef FSDP_CAPTURED_OPERATOR
    return true;
  }();
  static_cast<void>(defined);
}

} // namespace fsdp

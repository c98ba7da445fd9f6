// The schemas of the runtime's own operators: all that who reads an archive
// needs.

#include "operators/Operators.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace fsdp {

namespace {
struct Operator {
  const char *schema;
  bool isCaptured; // called by archives alone
};

constexpr Operator operators[] = {
#define FSDP_OPERATOR(schema) {schema, false},
#define FSDP_CPU_OPERATOR(schema) {schema, false},
#define FSDP_CAPTURED_OPERATOR(schema) {schema, true},
#include "operators/Operators.def"
#undef FSDP_OPERATOR
#undef FSDP_CPU_OPERATOR
#undef FSDP_CAPTURED_OPERATOR
};

bool define(bool captured) {
  // Not DEF, of which a process may have one: Python may be there first.
  static torch::Library library(torch::Library::FRAGMENT, "fsdp_mlir",
                                std::nullopt, __FILE__, __LINE__);
  for (const Operator &row : operators) {
    if (row.isCaptured != captured)
      continue;
    c10::FunctionSchema schema = torch::schema(row.schema);
    c10::OperatorName name("fsdp_mlir::" + schema.name(),
                           schema.overload_name());
    if (!c10::Dispatcher::singleton().findSchema(name))
      library.def(std::move(schema));
  }
  return true;
}
} // namespace

void defineOperators() {
  static const bool defined = define(/*captured=*/false);
  static_cast<void>(defined);
}

void defineCapturedOperators() {
  static const bool defined = define(/*captured=*/true);
  static_cast<void>(defined);
}

} // namespace fsdp
